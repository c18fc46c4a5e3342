"""What callers give, as the module takes it. What cannot be meant is an InputError that names the argument."""

from __future__ import annotations

import json
import math
import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, Union

from panpipe._errors import InputError

File = Union[str, "os.PathLike[str]"]
Scenario = Union[File, Mapping[str, Any]]
Settings = Union[Mapping[str, Any], None]
Files = Union[File, Sequence[File]]
Item = TypeVar("Item")

_DEEPEST = 64  # as of files: base/input/yaml_document.cpp


def _fault(key: str, message: str, remedy: str = "") -> InputError:
    return InputError(message, remedy=remedy, key=key)


def _kind(value: Any) -> str:
    return type(value).__name__


def _clean(text: str, key: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _fault(key, "this text holds halves of characters (surrogates), which no file of text can") from None
    return text


def _path(name: str, file: Any) -> str:
    """None stands for no file."""
    if file is None:
        return ""
    try:
        found = os.fspath(file)
    except TypeError:
        raise _fault(name, f"a path is wanted, not a {_kind(file)}") from None
    return _clean(found if isinstance(found, str) else os.fsdecode(found), name)


def _listed(name: str, given: Any, read: Callable[[str, Any], Item], single: tuple[type, ...], wanted: str) -> list[Item]:
    """Each item of a list, or the one that stands for a list of one."""
    if isinstance(given, single):
        given = [given]
    if not isinstance(given, Iterable):
        raise _fault(name, f"{wanted} is wanted, not a {_kind(given)}")
    return [read(name, item) for item in given]


def _files(name: str, files: Any) -> list[str]:
    return _listed(name, files, _path, (str, bytes, os.PathLike), "a path or a list of paths")


def _some_files(name: str, files: Any) -> list[str]:
    found = _files(name, files)
    if not found:
        raise _fault(name, "this is an empty list; name one file at least")
    return found


def _text(name: str, text: Any) -> str:
    if isinstance(text, str):
        return _clean(str.__str__(text), name)
    raise _fault(name, f"text is wanted, not a {_kind(text)}")


def _texts(name: str, texts: Any) -> list[str]:
    return _listed(name, texts, _text, (str,), "text or a list of texts")


def _assignments(name: str, given: Any) -> list[str]:
    """Of a dict "key=value", as a list may hold them."""
    return [f"{key}={value}" for key, value in given.items()] if isinstance(given, Mapping) else _texts(name, given)


def _whole(number: Any) -> int | None:
    """A whole number, also NumPy's; None for anything else."""
    return None if isinstance(number, bool) or not hasattr(number, "__index__") else operator.index(number)


def _count(name: str, count: Any, otherwise: int | None = None, most: int = 2**31 - 1) -> int:
    """A whole number from 1 on, as the module holds it; `otherwise` stands for None."""
    if count is None and otherwise is not None:
        return otherwise
    found = _whole(count)
    if found is None:
        raise _fault(name, f"a whole number is wanted, not a {_kind(count)}")
    if not 1 <= found <= most:
        raise _fault(name, f"a whole number from 1 to {most} is wanted, not {count!r}")
    return found


def _count_if_given(name: str, count: Any) -> int | None:
    return None if count is None else _count(name, count)


def _truth(name: str, value: Any) -> bool:
    if isinstance(value, bool) or hasattr(value, "dtype") and value.dtype == bool and value.shape == ():
        return bool(value)
    raise _fault(name, f"True or False is wanted, not {value!r}")


def _counts(name: str, counts: Any) -> list[int]:
    return [] if counts is None else _listed(name, counts, _count, (str, bytes), "a list of whole numbers")


def _number(name: str, number: Any) -> float:
    try:
        found = float(number)
    except (TypeError, ValueError, OverflowError):
        given = repr(number) if isinstance(number, str) else f"a {_kind(number)}"
        raise _fault(name, f"a number is wanted, not {given}") from None
    if not math.isfinite(found):
        raise _fault(name, f"a finite number is wanted, not {found}")
    return found


def _seconds(name: str, seconds: Any) -> float:
    found = _number(name, seconds)
    if found <= 0:
        raise _fault(name, f"seconds above 0 are wanted, not {found:g}")
    return found


def _plain(value: Any, key: str, depth: int = 0) -> Any:
    """A value of a scenario made of dicts, lists, texts, numbers, truths and None alone."""
    kind = type(value)
    if kind is str:
        return _clean(value, key)
    if kind is int or kind is bool or value is None:
        return value
    if kind is float:
        if math.isfinite(value):
            return value
        raise _fault(key, f"{value} is no number of a scenario")
    if depth > _DEEPEST:
        raise _fault(key.split(".")[0].split("[")[0], f"dicts and lists are nested more than {_DEEPEST} deep")
    if isinstance(value, Mapping):
        return {name: _plain(item, f"{key}.{name}" if key else name, depth + 1) for name, item in _named(value, key)}
    if isinstance(value, (list, tuple)):
        return [_plain(item, f"{key}[{index}]", depth + 1) for index, item in enumerate(value)]
    if isinstance(value, str):  # an enum that is one, NumPy's
        return _clean(str.__str__(value), key)
    if isinstance(value, os.PathLike):
        return _path(key, value)
    shape = getattr(value, "shape", None)  # of NumPy's numbers ()
    if shape == () and hasattr(value, "item") or shape is None and hasattr(value, "__index__"):
        found = value.item() if hasattr(value, "item") else operator.index(value)
        if type(found) is not kind:
            return _plain(found, key, depth + 1)
    if hasattr(value, "tolist"):  # NumPy's arrays, Series
        return _plain(value.tolist(), key, depth + 1)
    if hasattr(value, "__float__"):
        return _plain(float(value), key, depth + 1)
    remedy = "a family takes its options by with_options(stages_per_rank=2)" if hasattr(value, "with_options") else ""
    raise _fault(key, f"a {_kind(value)} is no value of a scenario; give a number, text, a list or a dict", remedy)


def _named(entries: Mapping, key: str):
    for name, item in entries.items():
        if not isinstance(name, str):
            raise _fault(key, f"a key is text, not {name!r}")
        yield _clean(str.__str__(name), key), item


def _source(scenario: Any) -> str | dict:
    if type(scenario) is str:
        return _clean(scenario, "scenario")
    if isinstance(scenario, Mapping):
        return _plain(scenario, "")
    if isinstance(scenario, os.PathLike):
        return _path("scenario", scenario)
    held = getattr(scenario, "scenario", None)  # of an ImportedJob
    if isinstance(held, Mapping):
        return _plain(held, "")
    raise _fault("scenario", f"a scenario is a path or a dict, not a {_kind(scenario)}")


def _value(value: Any, key: str = "") -> str:
    """As the command line would have it: text stays text, everything else is YAML in one line."""
    if type(value) is str:
        return _clean(value, key)
    plain = _plain(value, key)
    return plain if type(plain) is str else json.dumps(plain)


def _overrides(settings: Any) -> list[str]:
    if not settings and (settings is None or isinstance(settings, Mapping)):
        return []
    if not isinstance(settings, Mapping):
        raise _fault("set", f"a dict of keys and their values is wanted, not a {_kind(settings)}")
    return [f"{key}={_value(value, key)}" for key, value in _named(settings, "set")]


def _evidence(files: Any) -> list[str]:
    """Files of measurements, as what adds them to those that a scenario names."""
    if isinstance(files, (str, bytes, Mapping)) or not isinstance(files, Iterable):
        raise _fault("evidence", f"files stand in a list: [{files!r}]")
    return [f"evidence+={json.dumps(_path('evidence', file), ensure_ascii=False)}" for file in files]


def _defines(define: Any) -> dict[str, str]:
    if define is None:
        return {}
    if not isinstance(define, Mapping):
        raise _fault("define", f"a dict of variables and their values is wanted, not a {_kind(define)}")
    return {name: _value(value, f"define.{name}") for name, value in _named(define, "define")}


def _costs(costs: Mapping[str, Any] | str) -> str:
    if isinstance(costs, str):
        return costs
    if not isinstance(costs, Mapping):
        raise _fault("costs", f"a dict of passes and their times is wanted, not a {_kind(costs)}")
    parts = []
    for name, cost in _named(costs, "costs"):
        plain = _plain(cost, f"costs.{name}")
        parts.append(f"{name}=" + ("/".join(map(str, plain)) if isinstance(plain, list) else str(plain)))
    return ",".join(parts)
