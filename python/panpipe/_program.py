"""The commands of this package: each becomes the program of that name in _prefix/bin."""

import os
import pathlib
import re
import sys

_PACKAGE = pathlib.Path(__file__).absolute().parent
_PROGRAMS = _PACKAGE / "_prefix" / "bin"
# A link to a document of the repository, which an installed copy does not have.
_DOCUMENT_LINK = re.compile(r"\[([^\[\]]*)\]\(\.\./([^()]*)\)")


def _become(program, arguments):
    try:
        os.execv(program, [program, *arguments])
    except OSError as error:
        print(f"panpipe: cannot start {program}: {error.strerror}", file=sys.stderr)
        return 3


def main():
    return _become(str(_PROGRAMS / "panpipe"), sys.argv[1:])


def _tool(name):
    # Of this Python: it may have what the tool imports (torch), which the python3 of PATH may lack.
    return _become(sys.executable, [str(_PROGRAMS / name), *sys.argv[1:]])


def export_model():
    return _tool("panpipe-export-model")


def make_tokens():
    return _tool("panpipe-make-tokens")


def notebooks(arguments):
    """Copies the notebooks into a folder (panpipe-notebooks unless named), and never over a file that is there."""
    if len(arguments) > 1 or any(word.startswith("-") for word in arguments):
        print("usage: python -m panpipe notebooks [FOLDER]", file=sys.stderr)
        return 0 if arguments in (["-h"], ["--help"]) else 2
    folder = pathlib.Path(*arguments or ["panpipe-notebooks"])
    sources = sorted((_PACKAGE / "notebooks").glob("*.ipynb"))
    taken = [source.name for source in sources if (folder / source.name).exists()]
    if taken:
        print(f"panpipe: {folder / taken[0]} is there already: name another folder", file=sys.stderr)
        return 2
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for source in sources:
            (folder / source.name).write_text(
                _DOCUMENT_LINK.sub(r"\1 (\2)", source.read_text(encoding="utf-8")), encoding="utf-8"
            )
    except OSError as error:
        print(f"panpipe: cannot write {error.filename}: {error.strerror}", file=sys.stderr)
        return 3
    print(f"{len(sources)} notebooks in {folder}; jupyter lab {folder} opens them (pip install jupyterlab)")
    return 0
