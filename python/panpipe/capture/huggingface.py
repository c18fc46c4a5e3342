"""Hugging Face: TrainingArguments as the parser of a training script makes them, and the model's config.json.

The command line is that of a script such as run_clm.py, with or without its name, or a file of arguments. Options that are the
script's own are kept under `script`; the model is what `--config_name` or `--model_name_or_path` (`--model`) names: a folder, or a
name that the cache of huggingface_hub holds.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import pathlib
import typing

from .document import Captured, field_names, plain, refusals, release_of, stated_paths

_MODEL_OPTIONS = ("config_name", "model_name_or_path", "model")
# What a machine has: resolved to what it is here, not to what the job gets.
_MACHINE = ("local_rank", "distributed_state", "deepspeed_plugin", "hf_deepspeed_config")


def capture(arguments: list[str], world: int | None) -> Captured:
    transformers = importlib.import_module("transformers")
    with _as_if_on_gpus(importlib.import_module("transformers.training_args"), world), refusals("transformers"):
        training, rest = _parsed(transformers, arguments)
        default = transformers.TrainingArguments(output_dir=training.output_dir)
    configuration = _plain(training)
    configuration["script"] = options_of(rest)
    deepspeed = getattr(getattr(training, "hf_deepspeed_config", None), "config", None)
    if deepspeed is not None:
        configuration["deepspeed"] = plain(deepspeed)
    elif isinstance(training.deepspeed, str):
        configuration["deepspeed"] = json.loads(pathlib.Path(training.deepspeed).read_text(encoding="utf-8"))
    captured = Captured(configuration, release_of("transformers"), world=world)
    captured.stated = stated_paths(configuration, _plain(default))
    captured.model = _model_of(transformers, configuration["script"], captured.remarks)
    return captured


def _plain(training: typing.Any) -> dict[str, typing.Any]:
    return {name: plain(getattr(training, name)) for name in field_names(training) if name not in _MACHINE}


def _parsed(transformers: typing.Any, arguments: list[str]) -> tuple[typing.Any, list[str]]:
    parser = transformers.HfArgumentParser(transformers.TrainingArguments)
    words = [word for position, word in enumerate(arguments) if position > 0 or not word.endswith(".py")]
    if len(words) == 1 and pathlib.Path(words[0]).suffix in (".json", ".yaml", ".yml"):
        return _from_file(parser, pathlib.Path(words[0]))
    if not any(word.startswith("--output_dir") for word in words):
        words += ["--output_dir", "output"]
    training, rest = parser.parse_args_into_dataclasses(args=words, return_remaining_strings=True)
    return training, rest


def _from_file(parser: typing.Any, file: pathlib.Path) -> tuple[typing.Any, list[str]]:
    """A file of arguments: those of the script itself are not TrainingArguments'."""
    if file.suffix == ".json":
        values = json.loads(file.read_text(encoding="utf-8"))
    else:
        values = importlib.import_module("yaml").safe_load(file.read_text(encoding="utf-8"))
    names = {action.dest for action in parser._actions}
    rest = [word for name, value in values.items() if name not in names for word in (f"--{name}", str(value))]
    known = {name: value for name, value in values.items() if name in names}
    (training,) = parser.parse_dict({"output_dir": "output"} | known)
    return training, rest


def options_of(words: list[str]) -> dict[str, typing.Any]:
    """`--name value` and `--name=value`; a name without a value is true."""
    options: dict[str, typing.Any] = {}
    name = ""
    for word in words:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            options[name] = value if equals else True
        elif name:
            options[name] = word if options[name] is True else f"{options[name]} {word}"
    return options


def _model_of(transformers: typing.Any, script: dict[str, typing.Any], remarks: list[str]) -> dict[str, typing.Any] | None:
    name = next((str(script[option]) for option in _MODEL_OPTIONS if option in script), None)
    if name is None:
        remarks.append("the arguments name no model")
        return None
    try:
        config = transformers.AutoConfig.from_pretrained(name)
        if "config_overrides" in script:
            config.update_from_string(str(script["config_overrides"]))
    except (OSError, ValueError) as absent:
        remarks.append(f"the configuration of '{name}' is not on this machine: {str(absent).splitlines()[0]}")
        return None
    keys: dict[str, typing.Any] = plain(config.to_dict())
    return {key: value for key, value in keys.items() if not key.startswith("_") and key != "transformers_version"}


@contextlib.contextmanager
def _as_if_on_gpus(module: typing.Any, world: int | None) -> typing.Iterator[None]:
    """TrainingArguments looks at the machine: whether it computes in bf16, and its ranks. The job's machine has these."""
    arguments = module.TrainingArguments
    device = importlib.import_module("torch").device("cpu")
    stand_ins: dict[str, typing.Any] = {
        "_setup_devices": property(lambda self: device),
        "world_size": property(lambda self: world or 1),
        "n_gpu": property(lambda self: 1),
        "process_index": property(lambda self: 0),
        "local_process_index": property(lambda self: 0),
    }
    probes = {
        "is_torch_bf16_gpu_available": True,
        "is_torch_tf32_available": True,
        "enable_tf32": None,
        "is_torch_bf16_available": True,
    }
    before = [(arguments, name, arguments.__dict__.get(name)) for name in stand_ins]
    before += [(module, name, getattr(module, name, None)) for name in probes]
    for name, member in stand_ins.items():
        setattr(arguments, name, member)
    for name, answer in probes.items():
        if hasattr(module, name):
            setattr(module, name, lambda *_, answer=answer: answer)
    try:
        yield
    finally:
        for owner, name, member in before:
            if member is not None:
                setattr(owner, name, member)
