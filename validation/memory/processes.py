"""Work on the stand-in GPU: in a Python whose torch has CUDA, each piece in a process of its own. CUDA and the allocator read their
settings once, and a process that trained cannot be forked."""

import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
STAND_IN = ROOT / "tests/stand_in_gpu/with-stand-in-gpu"
LONGEST = 600  # seconds
COMPILER = "TORCHINDUCTOR_CACHE_DIR"  # of PyTorch, else in the temporary folder


def on_stand_in(command, **settings):
    """The exit code of `python COMMAND` with the stand-in's libraries in front; 77, with the reason, where no torch has CUDA."""
    own = ROOT / ".venv/bin/python3"
    python = own if importlib.util.find_spec("torch") is None and own.exists() else pathlib.Path(sys.executable)
    with_cuda = "import torch, sys; sys.exit(torch.version.cuda is None)"
    if subprocess.run([python, "-c", with_cuda], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        print(f"skipped: {python} has no torch with CUDA (tools/setup installs it)")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", COMPILER: folder, **settings}
        return subprocess.run([STAND_IN, python, *command], env=environment, check=False).returncode


def child(work, number, folder, settings, quiet):
    os.environ.update(settings)
    if quiet:
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    try:
        pathlib.Path(folder, f"{number}.json").write_text(json.dumps(work(number, folder)), encoding="utf-8")
    except Exception:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(0)


def in_processes(count, work, settings=None, quiet=False):
    """What work(number, folder) returns in each of so many processes, side by side; None where one ends without an answer. `settings`
    are added to their environment."""
    with tempfile.TemporaryDirectory() as folder:
        left = set()
        for number in range(count):
            process = os.fork()
            if process == 0:
                child(work, number, folder, {COMPILER: f"{folder}/compiler", "RANK": str(number), **(settings or {})}, quiet)
            left.add(process)
        until = time.monotonic() + LONGEST
        while left and time.monotonic() < until:
            left -= {process for process in left if os.waitpid(process, os.WNOHANG)[0]}
            time.sleep(0.02)
        for process in left:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        answers = [pathlib.Path(folder, f"{number}.json") for number in range(count)]
        return [json.loads(each.read_text(encoding="utf-8")) if each.exists() else None for each in answers]
