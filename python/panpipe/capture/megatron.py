"""Megatron-LM: the arguments as `megatron.training.arguments` parses and validates them. A checkout is on PYTHONPATH.

The package megatron-core of PyPI has no `megatron.training`. Beside the validated namespace the document has `words`: what was
parsed, as a command line without what is at its default. Validation turns options off that do not apply, so it is not in them.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
import typing

from .document import Captured, plain, refusals, release_of

# Degrees whose product divides the ranks.
_DEGREES = {"--tensor-model-parallel-size": 1, "--pipeline-model-parallel-size": 1, "--context-parallel-size": 1}


def capture(arguments: list[str], world: int | None) -> Captured:
    words = arguments[1:] if arguments and arguments[0].endswith(".py") else list(arguments)
    module = importlib.import_module("megatron.training.arguments")
    ranks = world or _fewest_ranks(words)
    with _as_if_started(words, ranks), refusals("megatron-core"):
        parser, namespace = _parser(module), module.parse_args()
        words = words_of(parser, namespace)
        stated = [action.dest for action in parser._actions if _is_stated(parser, action, namespace)]
        module.validate_args(namespace)
    configuration = {name: plain(value) for name, value in sorted(vars(namespace).items()) if not name.startswith("_")}
    return Captured(configuration, release_of("megatron-core"), world=world, words=words, stated=stated)


def _parser(module: typing.Any) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    added: argparse.ArgumentParser = module.add_megatron_arguments(parser)
    return added


def _fewest_ranks(words: list[str]) -> int:
    degrees = dict(_DEGREES)
    for position, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in degrees:
            value = value if equals else words[position + 1] if position + 1 < len(words) else "1"
            degrees[name] = int(value) if value.isdecimal() else 1
    product = 1
    for degree in degrees.values():
        product *= degree
    return product


def _is_stated(parser: argparse.ArgumentParser, action: argparse.Action, namespace: argparse.Namespace) -> bool:
    """Options may share a member, whose default is that of the first."""
    if not action.option_strings or not hasattr(namespace, action.dest):
        return False
    return bool(plain(getattr(namespace, action.dest)) != plain(parser.get_default(action.dest)))


def words_of(parser: argparse.ArgumentParser, namespace: argparse.Namespace) -> list[str]:
    """The command line that makes this namespace from the parser's defaults."""
    words: list[str] = []
    for action in parser._actions:
        if not _is_stated(parser, action, namespace):
            continue
        value = plain(getattr(namespace, action.dest))
        option = next((name for name in action.option_strings if name.startswith("--")), action.option_strings[0])
        if isinstance(value, bool):
            if value == getattr(action, "const", True) or isinstance(action, argparse.BooleanOptionalAction):
                words.append(option if value or action.nargs == 0 else "--no-" + option[2:])
        elif isinstance(value, list):
            words += [option, *(str(one) for one in value)]
        elif value is not None and not isinstance(value, dict):
            words += [option, str(value)]
    return words


@contextlib.contextmanager
def _as_if_started(words: list[str], ranks: int) -> typing.Iterator[None]:
    """The parser reads sys.argv and the launcher's variables, and asks for the kind of GPU: the answers are those of an H100."""
    cuda = importlib.import_module("torch").cuda
    argv, sys.argv = sys.argv, ["pretrain_gpt.py", *words]
    before = {"get_device_capability": cuda.get_device_capability, "get_device_properties": cuda.get_device_properties}
    cuda.get_device_capability = lambda *_, **__: (9, 0)
    cuda.get_device_properties = lambda *_, **__: argparse.Namespace(major=9, minor=0, name="NVIDIA H100 80GB HBM3")
    os.environ.update(WORLD_SIZE=str(ranks), RANK="0", LOCAL_RANK="0")
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "1")  # asked for with tensor parallelism
    try:
        yield
    finally:
        sys.argv = argv
        for name, member in before.items():
            setattr(cuda, name, member)
        for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"):
            os.environ.pop(name, None)
