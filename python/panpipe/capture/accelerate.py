"""Accelerate: what `accelerate launch` makes of its options and of the file that `accelerate config` wrote.

The keys are those of that file, which options of the command line replace.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pathlib
import typing

from .document import Captured, plain, refusals, release_of

# Where the file keeps an option, by the beginning of its name; others stand at the top.
_SECTIONS = {
    "fsdp_": "fsdp_config",
    "megatron_lm_": "megatron_lm_config",
    "parallelism_config_": "parallelism_config",
    "zero_stage": "deepspeed_config",
    "zero3_": "deepspeed_config",
    "offload_": "deepspeed_config",
    "deepspeed_": "deepspeed_config",
    "gradient_": "deepspeed_config",
    "fp8_": "fp8_config",
    "dynamo_": "dynamo_config",
}
_TYPES = {"use_fsdp": "FSDP", "use_deepspeed": "DEEPSPEED", "use_megatron_lm": "MEGATRON_LM", "multi_gpu": "MULTI_GPU"}
_OF_THE_LAUNCH = ("config_file", "nondefault", "training_script", "training_script_args", "use_parallelism_config", *_TYPES)


def capture(arguments: list[str], world: int | None) -> Captured:
    launch = importlib.import_module("accelerate.commands.launch")
    words = arguments[1:] if arguments[:1] == ["launch"] else list(arguments)
    with refusals("accelerate"):
        stated = _stated(launch.launch_command_parser(), words)
        settings = launch.launch_command_parser().parse_args(words + ([] if "training_script" in stated else ["train.py"]))
        settings, defaults, _ = launch._validate_launch_command(settings)
    configuration: dict[str, typing.Any] = plain(dict(vars(defaults))) if defaults is not None else {}
    configuration.pop("nondefault", None)  # which of the launch's options were given
    _overlay(configuration, stated)
    configuration.setdefault("mixed_precision", plain(settings.mixed_precision))
    if defaults is None and "num_processes" not in stated:
        configuration.pop("num_processes", None)  # the devices of this machine
    _read_deepspeed_file(configuration)
    return Captured(configuration, release_of("accelerate"), world=world)


def _stated(parser: argparse.ArgumentParser, words: list[str]) -> dict[str, typing.Any]:
    """The options of the command line alone."""
    for action in parser._actions:
        action.default = argparse.SUPPRESS
        if action.dest in ("training_script",):
            action.nargs, action.required = "?", False
    return vars(parser.parse_args(words))


def _overlay(configuration: dict[str, typing.Any], stated: dict[str, typing.Any]) -> None:
    for option, kind in _TYPES.items():
        if stated.get(option):
            configuration["distributed_type"] = kind
    for name, value in stated.items():
        if name in _OF_THE_LAUNCH:
            continue
        section = next((part for start, part in _SECTIONS.items() if name.startswith(start)), None)
        target = configuration if section is None else configuration.setdefault(section, {})
        target[name] = plain(value)


def _read_deepspeed_file(configuration: dict[str, typing.Any]) -> None:
    """A file of DeepSpeed in place of Accelerate's own keys: the same keys, from that file."""
    section = configuration.get("deepspeed_config") or {}
    file = section.pop("deepspeed_config_file", None)
    if not file or file == "none":
        return
    values = json.loads(pathlib.Path(file).read_text(encoding="utf-8"))
    zero = values.get("zero_optimization", {})
    section["zero_stage"] = zero.get("stage", 0)
    for part in ("optimizer", "param"):
        section[f"offload_{part}_device"] = (zero.get(f"offload_{part}") or {}).get("device", "none")
    for key in ("gradient_accumulation_steps", "gradient_clipping"):
        if values.get(key, "auto") != "auto":
            section[key] = values[key]
    for kind in ("bf16", "fp16"):
        if (values.get(kind) or {}).get("enabled") is True:
            configuration["mixed_precision"] = kind
