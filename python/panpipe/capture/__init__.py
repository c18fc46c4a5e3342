"""The configuration that another trainer resolves, as JSON for `panpipe import TRAINER`.

`python -m panpipe.capture TRAINER ARGUMENTS...` runs in the trainer's own environment, with its own command line. It needs the
standard library alone: this folder works by itself too (`python -m capture`), without Panpipe's compiled module. The
trainer's parser and its registries of configurations are run; its training is not (`quiet.py`).
"""

from __future__ import annotations

import importlib

from .document import CannotCapture, Captured

# The words of `panpipe import`, and the module for each. A module has `capture(arguments, world)`.
TRAINERS: dict[str, str] = {
    "torchtitan": "torchtitan",
    "huggingface": "huggingface",
    "accelerate": "accelerate",
    "deepspeed": "deepspeed",
    "megatron-core": "megatron",
    "nemo": "nemo",
}
ALIASES = {"megatron": "megatron-core"}

__all__ = ["ALIASES", "TRAINERS", "CannotCapture", "Captured", "capture"]


def capture(trainer: str, arguments: list[str], world: int | None = None) -> Captured:
    """What `trainer` makes of its own command line. Raises CannotCapture."""
    name = ALIASES.get(trainer, trainer)
    if name not in TRAINERS:
        raise CannotCapture(
            f"there is no capture of '{trainer}'; known are {', '.join(TRAINERS)}; files are read by panpipe import", exit_code=2
        )
    try:
        module = importlib.import_module(f".{TRAINERS[name]}", __package__)
        captured: Captured = module.capture(list(arguments), world)
    except ImportError as error:
        raise CannotCapture(
            f"{name} does not load here: {error}\n  help: run this with the Python that the trainer runs with", exit_code=3
        ) from error
    captured.trainer, captured.arguments = name, list(arguments)
    captured.world = captured.world or world
    return captured
