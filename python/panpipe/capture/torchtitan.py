"""torchtitan: its ConfigManager, with registries of configurations in Python (0.3) or TOML files (before).

The sections keep their names. Where a later release has a class or a list in place of an earlier key, the earlier key is added,
which the importer reads: `model.name`, `model.flavor`, `model.converters`, `activation_checkpoint.mode`, `optimizer.name`.
"""

from __future__ import annotations

import dataclasses
import importlib
import typing

from .document import Captured, field_names, plain, refusals, release_of, stated_paths
from .torchtitan_model import config_json_of

_MODES = {"FullAC": "full", "SelectiveAC": "selective", "MemoryBudgetAC": "memory_budget", "NoneType": "none"}


def capture(arguments: list[str], world: int | None) -> Captured:
    config_module = importlib.import_module("torchtitan.config")
    release = release_of("torchtitan")
    with refusals("torchtitan"):
        config = config_module.ConfigManager().parse_args(arguments)
    configuration = plain({name: getattr(config, name) for name in field_names(config) if name != "model_spec"})
    defaults = plain({name: _default(config, name) for name in configuration})
    remarks: list[str] = []
    model = _model_of(config, configuration, remarks)
    _name_policies(config, configuration, defaults)
    captured = Captured(configuration, release, model=model, world=world, remarks=remarks)
    captured.stated = stated_paths(configuration, defaults)
    return captured


def _default(config: typing.Any, name: str) -> typing.Any:
    """The member as its class has it: that of its own class, where the type of the field allows several."""
    value = getattr(config, name)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        try:
            return type(value)()
        except (TypeError, ValueError):
            return None  # with members that have no default
    field = next(field for field in dataclasses.fields(config) if field.name == name)
    return field.default if field.default is not dataclasses.MISSING else None


def _model_of(config: typing.Any, configuration: dict[str, typing.Any], remarks: list[str]) -> dict[str, typing.Any] | None:
    spec = getattr(config, "model_spec", None)
    if spec is None:
        spec, arguments = _spec_of_name(configuration)
    else:
        arguments = spec.model
        section = configuration.setdefault("model", {})
        section.update(name=spec.name, flavor=spec.flavor, converters=_converters(arguments))
    if arguments is None:
        remarks.append("torchtitan names no model")
        return None
    if getattr(arguments, "vision_encoder", None) is not None:
        remarks.append("the model's vision encoder is left out")
    try:
        return config_json_of(spec if isinstance(spec, str) else spec.name, arguments)
    except (AttributeError, LookupError, TypeError) as unknown:
        remarks.append(f"the model's sizes are not known by torchtitan's names: {type(unknown).__name__}: {unknown}")
        return None


def _spec_of_name(configuration: dict[str, typing.Any]) -> tuple[str, typing.Any]:
    """Releases with TOML: the sizes of a flavor, by the name that the file states."""
    section = configuration.get("model") or {}
    name, flavor = str(section.get("name", "")), section.get("flavor")
    try:
        protocols = importlib.import_module("torchtitan.protocols.train_spec")
    except ImportError:
        return name, None
    spec = protocols.get_train_spec(name)
    sizes = getattr(spec, "model_args", None) or getattr(spec, "config", None) or {}
    return name, sizes.get(flavor)


def _converters(model: typing.Any) -> list[str]:
    """Low-precision linear layers, by what they were converted to: they replace the plain ones in the tree."""
    kinds = {f"{type(node).__module__}.{type(node).__qualname__}".lower() for node in _nodes(model)}
    found = [word for word in ("float8", "mxfp8", "nvfp4") if any(word in kind for kind in kinds)]
    return [{"mxfp8": "mx"}.get(word, word) for word in found]


def _nodes(value: typing.Any, depth: int = 0) -> typing.Iterator[typing.Any]:
    if depth > 16:
        return
    if isinstance(value, (list, tuple)):
        for one in value[:2]:  # blocks of a model are alike, but for the first ones
            yield from _nodes(one, depth + 1)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield value
        for field in dataclasses.fields(value):
            yield from _nodes(getattr(value, field.name), depth + 1)


def _name_policies(config: typing.Any, configuration: dict[str, typing.Any], defaults: dict[str, typing.Any]) -> None:
    """The earlier keys of what is a class or a list now."""
    policy = getattr(config, "activation_checkpoint", None)
    owner = type(policy).__qualname__.split(".")[0]
    if not hasattr(policy, "mode"):
        section = configuration["activation_checkpoint"] = configuration.get("activation_checkpoint") or {}
        section["mode"] = _MODES.get(owner, owner)
        if owner == "SelectiveAC":
            section["selective_ac_option"] = "op"
    groups = getattr(getattr(config, "optimizer", None), "param_groups", None)
    if groups:
        names = list(dict.fromkeys(group.optimizer_name for group in groups))
        configuration["optimizer"]["name"] = " and ".join(names)
    loss = getattr(config, "loss", None)
    if loss is not None:
        configuration["loss"]["class"] = type(loss).__qualname__.split(".")[0]
