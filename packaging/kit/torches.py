"""Finds the Python with the torch package that the kit's programs run beside."""

import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ASK = "import torch; print(torch.__file__); print(torch.__version__); print(torch.cuda.is_available())"
LONGEST = 180.0  # seconds that an import may take, from a slow disk


class NoTorch(Exception):
    """Says where was looked, and what to do."""


def wanted():
    """'2.11', the release that the kit was made with; '' where no RELEASE says so."""
    file = HERE / "RELEASE"
    return file.read_text(encoding="utf-8").split("torch ")[1].strip() if file.is_file() else ""


def pythons(environment):
    """(Python, environment) that may have torch, in the order in which Panpipe looks for LibTorch."""
    named = environment.get("PANPIPE_LIBTORCH")
    if named:
        if not os.path.isdir(named):
            raise NoTorch(f"PANPIPE_LIBTORCH={named}: there is no such folder; name that of a torch package, or unset it")
        site = pathlib.Path(named).resolve().parent
        with_site = dict(environment, PYTHONPATH=str(site))
        yield str(site.parent.parent.parent / "bin" / "python3"), with_site
        yield sys.executable, with_site
        return
    found = [
        os.path.join(environment[name], "bin", "python3") for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if environment.get(name)
    ]
    found += [sys.executable, *filter(None, (shutil.which(name) for name in ("python3", "python")))]
    # As the user has it; then without what leads a Python astray.
    plain = {name: value for name, value in environment.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    for one in [environment] if plain == environment else [environment, plain]:
        yield from ((python, one) for python in found)


def ask(python, environment, limit):
    """(folder, version, whether it sees a card), or the reason why there is none."""
    try:
        # In this folder: a folder torch of the current one would be taken for it.
        asked = subprocess.run(
            [python, "-c", ASK], capture_output=True, encoding="utf-8", errors="replace", env=environment, cwd=HERE, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return f"took longer than {limit:.0f} s to load torch"
    except OSError as error:
        return f"does not start: {error.strerror}"
    if asked.returncode != 0:
        return (asked.stderr.strip().splitlines() or [f"ends with code {asked.returncode}"])[-1][:200]
    file, version, card = asked.stdout.splitlines()[-3:]
    return str(pathlib.Path(file).parent), version, card == "True"


def find(environment, limit):
    """(Python, its environment, version of torch, whether it sees a card). Throws NoTorch."""
    release, tried = wanted(), {}
    for python, of_python in pythons(environment):
        if not os.path.exists(python) or (python in tried and of_python is environment):
            continue
        found = ask(python, of_python, min(LONGEST, max(1.0, limit())))
        if isinstance(found, str):
            tried.setdefault(python, found)
            continue
        folder, version, card = found
        if release and not version.startswith(release + "."):
            tried[python] = f"has torch {version}"
            continue
        return python, dict(of_python, PANPIPE_LIBTORCH=folder), version, card
    lines = [f"no Python here has torch{' ' + release if release else ''}, which the kit's programs run beside"]
    lines += [f"  {python}: {why}" for python, why in tried.items()] or ["  there is no python3"]
    remedy = f"install it (pip install 'torch=={release or '2.11'}.*')"
    raise NoTorch("\n".join([*lines, f"{remedy}, or set PANPIPE_LIBTORCH to the folder of such a torch package"]))
