"""What the tests of documents share: the pages, the shell lines they show, and a folder in which a page's commands run."""

import contextlib
import os
import pathlib
import re
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def pages():
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "CONTRIBUTING.md", ROOT / "notebooks/README.md"]


def shell_lines(text):
    """The commands of the ```sh blocks. A line `cat > FILE << 'END'` and what follows it to END are one command."""
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S):
        lines = iter(block.replace("\\\n", " ").splitlines())
        for line in lines:
            if end := re.match(r"cat > \S+ <<\s*'(\w+)'$", line):
                body = [line]
                while body[-1] != end.group(1):
                    body.append(next(lines))
                yield "\n".join(body) + "\n"
            elif line.strip():
                yield line.strip()


def shell(command, folder, environment):
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )


def environment(bin_folder):
    """The programs of the build come first in PATH."""
    return dict(os.environ, PATH=f"{os.path.abspath(bin_folder)}{os.pathsep}{os.environ['PATH']}", NO_COLOR="1")


@contextlib.contextmanager
def workplace():
    """A new folder whose entries are links to the source tree's: a page's commands may write, and see what no other page made."""
    with tempfile.TemporaryDirectory() as work:
        for entry in ROOT.iterdir():
            if entry.name not in (".git", "out"):
                os.symlink(entry, pathlib.Path(work) / entry.name)
        yield work
