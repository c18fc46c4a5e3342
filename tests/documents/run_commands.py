#!/usr/bin/env python3
"""Runs the commands that the documents show, so that they cannot rot.

In every Markdown file, each line of a ```sh block that starts with `panpipe` is run from the source folder, with the
programs of the build first in PATH. A block followed by ```text is not compared (figures live in golden tests); a command
must exit with 0, or with N where the line ends in `# exits N`. `make`, `git` and `cd` lines are known and not run.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parents[2]
KNOWN = ("make ", "git ", "cd ", "cmake ", "ctest ", "tools/", "sudo ", "#", "export ", "torchrun ", "srun ", "mpirun ", ".venv/")


def commands(text):
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S):
        for line in block.replace("\\\n", " ").splitlines():
            if line.strip():
                yield line.strip()


def main(bin_folder):
    environment = dict(os.environ, PATH=f"{bin_folder}{os.pathsep}{os.environ['PATH']}", NO_COLOR="1")
    failures, ran = [], 0
    executor = (pathlib.Path(bin_folder) / "panpipe-exec").exists()  # builds without LibTorch have none
    files = [root / "README.md", *sorted((root / "docs").rglob("*.md")), root / "CONTRIBUTING.md"]
    with tempfile.TemporaryDirectory() as work:
        # Commands may write: they run in a folder whose entries are links to the source tree's.
        for entry in root.iterdir():
            if entry.name not in (".git", "out"):
                os.symlink(entry, pathlib.Path(work) / entry.name)
        for file in files:
            for line in commands(file.read_text(encoding="utf-8")):
                name = file.relative_to(root)
                if line.startswith(KNOWN):
                    continue
                if not line.startswith("panpipe"):
                    failures.append(f"{name}: a command this test does not know: {line}")
                    continue
                if not executor and re.match(r"panpipe (run|profile)\b", line):
                    continue
                expected = int(match.group(1)) if (match := re.search(r"#\s*exits (\d+)", line)) else 0
                done = subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=work, env=environment, capture_output=True, text=True, timeout=120)
                ran += 1
                if done.returncode != expected:
                    failures.append(f"{name}: exit {done.returncode} instead of {expected}: {line}\n{done.stdout[-800:]}{done.stderr[-800:]}")
    print("\n".join(failures) or f"{ran} commands of {len(files)} documents run")
    return 1 if failures or ran == 0 else 0


sys.exit(main(sys.argv[1]))
