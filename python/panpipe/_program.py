"""The commands of this package: each becomes the program of that name in _prefix/bin."""

import os
import pathlib
import sys

_PROGRAMS = pathlib.Path(__file__).resolve().parent / "_prefix" / "bin"


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


def draw_timeline():
    return _tool("panpipe-draw-timeline")
