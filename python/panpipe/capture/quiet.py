"""Keeps a trainer from all but resolving its configuration.

No GPU is seen, nothing is fetched, no process group is made, no other program is started and no file is written. What would
still do it is refused with an error that names it. It holds for the rest of the process. HF_HUB_OFFLINE=0 in the environment
lets huggingface_hub fetch the configuration of a model into its cache.
"""

from __future__ import annotations

import os
import sys
import tempfile
import typing

# Before torch is imported. What the user has set stays, but for the devices.
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "WANDB_MODE": "disabled",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "DS_ACCELERATOR": "cpu",  # DeepSpeed looks for one by starting programs
}
_NO_DEVICES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")


class Refused(FileNotFoundError):
    """A trainer wanted more than to resolve its configuration. Packages that probe the machine go on without what is not there."""


def prepare_environment() -> int | None:
    """Hides devices and networks, and takes the launcher's ranks out of the environment: returns how many there were."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    for name in _NO_DEVICES:
        os.environ[name] = ""
    world = os.environ.pop("WORLD_SIZE", "")
    for name in ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "GROUP_RANK", "SLURM_NTASKS"):
        os.environ.pop(name, None)
    sys.dont_write_bytecode = True
    return int(world) if world.isdecimal() and int(world) > 0 else None


def _writes(mode: typing.Any, flags: typing.Any) -> bool:
    if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC):
        return True
    return isinstance(mode, str) and any(letter in mode for letter in "wax+")


def _may_write(path: typing.Any, temporary: str) -> bool:
    """Devices, and the folder for temporary files, where packages keep locks and probes."""
    if not isinstance(path, (str, bytes)):
        return True  # a descriptor that is open already
    return (os.path.realpath(os.fsdecode(path)) + os.sep).startswith(("/dev/", temporary))


_WRITING = {"os.mkdir": 0, "os.remove": 0, "os.rename": 1, "os.rmdir": 0, "os.truncate": 0, "shutil.rmtree": 0}


def refuse_effects() -> None:
    """Installs a hook that refuses connections, programs, and files outside the folder for temporary files."""
    # Before the hook is there: finding the folder writes into it.
    temporary = os.path.realpath(tempfile.gettempdir()) + os.sep

    fetches = os.environ.get("HF_HUB_OFFLINE") == "0"

    def hook(event: str, arguments: tuple[typing.Any, ...]) -> None:
        if fetches and event != "subprocess.Popen":
            return
        if event == "open" and _writes(arguments[1], arguments[2]) and not _may_write(arguments[0], temporary):
            raise Refused(f"it wants to write {arguments[0]}")
        if event in _WRITING and not _may_write(arguments[_WRITING[event]], temporary):
            raise Refused(f"it wants to change {arguments[_WRITING[event]]}")
        if event == "socket.connect" and isinstance(arguments[1], tuple):
            raise Refused(f"it wants to connect to {arguments[1][0]}")
        if event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"):
            raise Refused(f"it wants to start {arguments[0]}")

    sys.addaudithook(hook)
