#!/usr/bin/env python3
"""Runs the commands that the documents show, so that they cannot rot.

In every Markdown file, each line of a ```sh block that starts with `panpipe`, and each `cat > FILE << 'END'`, is run in the order
of the page, with the programs of the build first in PATH, in a folder of the page's own. A block followed by ```text is not compared
(figures live in golden tests); a command must exit with 0, or with N where the line ends in `# exits N`. `make`, `git` and `cd` lines
are known and not run. A build without LibTorch leaves out `run` and `profile`, and what reads a file that these were to make.
"""

import pathlib
import re
import sys

from pages import ROOT, environment, pages, shell, shell_lines, workplace

KNOWN = (
    "make ",
    "mkdir ",
    "git ",
    "cd ",
    "cmake ",
    "ctest ",
    "tools/",
    "sudo ",
    "#",
    "export ",
    "torchrun ",
    "srun ",
    "mpirun ",
    "pip ",
    ".venv/",
    "python -m ",
    "jupyter ",
)
EXECUTOR = re.compile(r"panpipe (run|profile)\b")


def needs(line, absent):
    return bool(EXECUTOR.match(line)) or any(name in line.split() or f"={name}" in line for name in absent)


def main(bin_folder):
    failures, ran = [], 0
    executor = (pathlib.Path(bin_folder) / "panpipe-exec").exists()
    for file in pages():
        absent = set()  # what the executor would have made
        with workplace() as work:
            for line in shell_lines(file.read_text(encoding="utf-8")):
                name = file.relative_to(ROOT)
                if line.startswith(KNOWN):
                    continue
                if not line.startswith(("panpipe", "cat > ")):
                    failures.append(f"{name}: a command this test does not know: {line}")
                    continue
                if not executor and needs(line, absent):
                    absent.update(re.findall(r"-o (\S+)", line))
                    continue
                expected = int(match.group(1)) if (match := re.search(r"#\s*exits (\d+)", line)) else 0
                done = shell(line, work, environment(bin_folder))
                ran += 1
                if done.returncode != expected:
                    failures.append(f"{name}: exit {done.returncode} instead of {expected}: {line}\n{done.stdout[-1600:]}")
    print("\n".join(failures) or f"{ran} commands of {len(pages())} documents run")
    return 1 if failures or ran == 0 else 0


sys.exit(main(sys.argv[1]))
