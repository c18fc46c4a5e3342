"""The document of a captured configuration, and values of other programs as plain JSON."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import importlib.metadata
import math
import os
import typing

SCHEMA = "panpipe-capture/1"
_DEEPEST = 24  # of nested values; a configuration has five levels or so


class CannotCapture(Exception):
    """What the trainer refuses, lacks or leaves open."""

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclasses.dataclass
class Captured:
    """What a trainer resolved. `configuration` has the trainer's own names."""

    configuration: dict[str, typing.Any]
    release: str
    model: dict[str, typing.Any] | None = None  # keys of config.json; None: the trainer names no model, or one that is not known
    stated: list[str] | None = None  # dotted keys whose value is not the trainer's default; None: not known
    words: list[str] | None = None  # the same as words of a command line, for trainers whose configuration is one
    remarks: list[str] = dataclasses.field(default_factory=list)
    trainer: str = ""
    arguments: list[str] = dataclasses.field(default_factory=list)
    world: int | None = None

    def document(self) -> dict[str, typing.Any]:
        made: dict[str, typing.Any] = {
            "panpipe": 1,
            "schema": SCHEMA,
            "trainer": {"name": self.trainer, "release": self.release},
            "argv": self.arguments,
            "configuration": plain(self.configuration),
        }
        parts = {"model": self.model, "world": self.world, "stated": self.stated, "words": self.words}
        made.update({key: plain(value) for key, value in parts.items() if value is not None})
        if self.remarks:
            made["remarks"] = self.remarks
        return made


@contextlib.contextmanager
def refusals(trainer: str) -> typing.Iterator[None]:
    """A parser ends the process for options that it does not know, after it has reported them."""
    try:
        yield
    except SystemExit as ended:
        if ended.code in (0, None):
            raise CannotCapture(f"{trainer} printed its help; there is no configuration", exit_code=0) from ended
        raise CannotCapture(f"{trainer} refuses its arguments, as it reports above", exit_code=2) from ended


def release_of(*packages: str) -> str:
    """The release of the first of these packages that is installed; a checkout on PYTHONPATH has none."""
    for package in packages:
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "unknown"


def plain(value: typing.Any, depth: int = 0) -> typing.Any:
    """The value with types of JSON. Dataclasses become maps without their private members, other objects their names."""
    if depth > _DEEPEST:
        return "..."
    if value is None or isinstance(value, (bool, int, str)):
        return value.value if isinstance(value, enum.Enum) else value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, enum.Enum):
        return plain(value.value, depth + 1) if isinstance(value.value, (str, int, float)) else value.name
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: plain(getattr(value, name), depth + 1) for name in field_names(value)}
    if isinstance(value, dict):
        return {str(plain(key, depth + 1)): plain(one, depth + 1) for key, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        items = sorted(value, key=str) if isinstance(value, (set, frozenset)) else value
        return [plain(one, depth + 1) for one in items]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return name_of(value)


def name_of(value: typing.Any) -> str:
    """A name without an address: torch's types without their module, functions and classes with it."""
    text = str(value)
    if text.startswith("torch."):
        return text.removeprefix("torch.")
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"


def field_names(value: typing.Any) -> list[str]:
    return [field.name for field in dataclasses.fields(value) if not field.name.startswith("_")]


def stated_paths(value: typing.Any, default: typing.Any, path: str = "") -> list[str]:
    """The dotted paths of a plain value at which it is not its default."""
    if isinstance(value, dict):
        known = default if isinstance(default, dict) else {}
        below = [stated_paths(one, known.get(key), f"{path}.{key}" if path else key) for key, one in value.items()]
        return [one for paths in below for one in paths]
    return [] if value == default else [path]
