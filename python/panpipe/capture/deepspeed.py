"""DeepSpeed: the engine's DeepSpeedConfig of a ds_config.json, which `--deepspeed_config FILE` or the first word names.

The keys are those of the file. `zero_optimization` has the defaults of the installed release, and with the number of ranks the
three numbers of the batch agree as the engine makes them.
"""

from __future__ import annotations

import importlib
import json
import typing

from .document import CannotCapture, Captured, plain, refusals, release_of, stated_paths

_FILE_OPTIONS = ("--deepspeed_config", "--deepspeed")
_BATCH = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")


def capture(arguments: list[str], world: int | None) -> Captured:
    file = _file_of(arguments)
    with open(file, encoding="utf-8") as text:
        given: dict[str, typing.Any] = json.load(text)
    configuration: dict[str, typing.Any] = plain(given)
    captured = Captured(configuration, release_of("deepspeed"), world=world, stated=stated_paths(plain(given), {}))
    engine = _engine_config(given, world)
    configuration["zero_optimization"] = plain(_dumped(engine.zero_config)) | configuration.get("zero_optimization", {})
    if world is not None:
        configuration.update({key: getattr(engine, key) for key in _BATCH})
    return captured


def _file_of(arguments: list[str]) -> str:
    for position, word in enumerate(arguments):
        option, equals, value = word.partition("=")
        if option in _FILE_OPTIONS and equals:
            return value
        if word in _FILE_OPTIONS and position + 1 < len(arguments) and not arguments[position + 1].startswith("--"):
            return arguments[position + 1]
    if arguments and not arguments[0].startswith("--"):
        return arguments[0]
    raise CannotCapture("deepspeed: name its configuration: --deepspeed_config ds_config.json")


def _engine_config(given: dict[str, typing.Any], world: int | None) -> typing.Any:
    """`auto` is for the program that starts DeepSpeed; the engine alone refuses it."""
    module = importlib.import_module("deepspeed.runtime.config")
    settled = _without_auto(given)
    ranks = _replicas(given, world)
    if not any(key in settled for key in _BATCH):
        settled["train_micro_batch_size_per_gpu"] = 1
    if ranks is not None:
        module.dist.get_rank = lambda *_, **__: 0
        module.dist.get_world_size = lambda *_, **__: ranks
    with refusals("deepspeed"):
        return module.DeepSpeedConfig(settled)


def _without_auto(value: typing.Any) -> typing.Any:
    if isinstance(value, dict):
        return {key: _without_auto(one) for key, one in value.items() if one != "auto"}
    return value


def _replicas(given: dict[str, typing.Any], world: int | None) -> int | None:
    if world is None:
        return None
    tensor = given.get("tensor_parallel", {})
    parts = (tensor.get("autotp_size"), (tensor.get("tp") or {}).get("tp_size"), given.get("pipeline", {}).get("stages"))
    for part in parts:
        if isinstance(part, int) and part > 1:
            if world % part != 0:
                raise CannotCapture(f"deepspeed: {world} ranks are no multiple of {part}")
            world //= part
    return world


def _dumped(model: typing.Any) -> dict[str, typing.Any]:
    """pydantic's models, of both of its interfaces."""
    values: dict[str, typing.Any] = model.model_dump() if hasattr(model, "model_dump") else model.dict()
    return {key: _dumped(value) if hasattr(value, "model_fields") else value for key, value in values.items()}
