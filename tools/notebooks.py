#!/usr/bin/env python3
"""Runs the notebooks of notebooks/ with the package of a build, top to bottom, and writes copies with their outputs into build/notebooks.

    tools/notebooks.py [--stale] [NAME...]
NAME: a part of a file name; all notebooks unless given. --stale: only those whose copy is older than the notebook or the package.
PANPIPE_PACKAGE is the folder that holds the package, build/release/python if it is not set.
Exit code 1 with the cell and its error where a cell fails, 3 where a package is missing (tools/setup --notebooks installs them).
The functions here that read notebooks need no package: the site shows them by notebook_pages.py.
"""

import json
import os
import pathlib
import re
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER, RUN = ROOT / "notebooks", ROOT / "build/notebooks"
CELL_LIMIT_S = 300


def notebooks():
    return sorted(FOLDER.glob("*.ipynb"))


def package_folder():
    return pathlib.Path(os.environ.get("PANPIPE_PACKAGE", ROOT / "build/release/python"))


def why_not():
    """Why no notebook can run here; empty where they can."""
    if not list((package_folder() / "panpipe").glob("_core*.so")):
        return f"the Python package is not in {package_folder()}: make build builds it where nanobind is installed"
    try:
        import ipykernel  # noqa: F401
        import nbclient  # noqa: F401
    except ImportError as error:
        return f"{error.name} is not installed for {sys.executable}: tools/setup --notebooks installs it into .venv"
    return ""


def plain(error):
    """The text of an error without the colours of a terminal."""
    return re.sub(r"\x1b\[[0-9;]*m", "", str(error))


def stale(notebook):
    """Whether the copy with outputs is older than what it was made from."""
    copy = RUN / notebook.name
    sources = [
        notebook,
        *(package_folder() / "panpipe").glob("*.*"),
        *(path for path in (ROOT / "scenarios").rglob("*") if path.is_file()),
    ]
    return not copy.exists() or copy.stat().st_mtime < max(path.stat().st_mtime for path in sources)


def run(notebook):
    """Executes a notebook in a new folder, in a kernel that reads no settings of the user's; returns the seconds. Raises nbclient's
    CellExecutionError, whose text has the cell and its traceback. The copy appears whole."""
    import nbclient
    import nbformat
    from jupyter_client.manager import AsyncKernelManager

    document = nbformat.read(notebook, as_version=4)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        home = {
            name: f"{folder}/{name.lower()}"
            for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR")
        }
        environment = {**os.environ, **home, "PYTHONPATH": str(package_folder()), "PYTHONDONTWRITEBYTECODE": "1"}
        # Sockets in the folder: nothing of the network is used, and concurrent runs cannot take one port.
        kernel = AsyncKernelManager(kernel_name="python3", transport="ipc", ip=f"{folder}/kernel")
        work = pathlib.Path(folder, "work")
        work.mkdir()
        nbclient.NotebookClient(document, km=kernel, timeout=CELL_LIMIT_S, extra_arguments=["--log-level=ERROR"]).execute(
            env=environment, cwd=str(work)
        )
    seconds = time.monotonic() - begin
    RUN.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=RUN, suffix=".part", encoding="utf-8", delete=False) as part:
        json.dump(document, part)
    os.replace(part.name, RUN / notebook.name)
    return seconds


def main(arguments):
    wanted = [word for word in arguments if not word.startswith("--")]
    unknown = [word for word in arguments if word.startswith("--") and word != "--stale"]
    chosen = [file for file in notebooks() if not wanted or any(word in file.name for word in wanted)]
    if unknown or not chosen:
        print(
            f"notebooks: {'unknown argument ' + unknown[0] if unknown else 'no notebook of that name'}; see the head of this file",
            file=sys.stderr,
        )
        return 2
    if reason := why_not():
        print(f"notebooks: {reason}", file=sys.stderr)
        return 3
    from nbclient.exceptions import CellExecutionError

    failed = 0
    for notebook in chosen:
        if "--stale" in arguments and not stale(notebook):
            continue
        try:
            seconds = run(notebook)
            print(f"{notebook.name}: {seconds:.0f} s, {(RUN / notebook.name).relative_to(ROOT)}", flush=True)
        except CellExecutionError as error:
            failed += 1
            print(f"{notebook.name}: a cell failed\n{plain(error)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
