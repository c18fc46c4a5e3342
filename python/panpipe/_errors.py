"""The four kinds of failure, as exceptions. They travel between processes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One fault in what was given.

    message: What is wrong, without its place.
    remedy: What to write instead; empty where that is unknown.
    file: The file as it was named, "scenario" for a dict, "set" for an override; empty where the fault has no place.
    line, column: From 1; 0 where there is none.
    key: Path of the key at fault: "parallel.tensor"; empty where none is.
    text: The whole as the command line prints it, with the line of the file and a mark under it.
    code: Kind of the fault, for programs, since wording may change: "unknown-key", "missing-key", "repeated", "unknown-name",
        "wrong-type", "not-a-number", "out-of-range", "conflict", "no-file", "not-text", "syntax", "empty"; "invalid" for any
        other.
    """

    message: str
    remedy: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    key: str = ""
    text: str = ""
    code: str = "invalid"


class PanpipeError(Exception):
    """What all of these have in common."""


class InputError(PanpipeError, ValueError):
    """What was given is wrong: a scenario, an override, an argument.

    diagnostics: Up to 20 faults, in the order of the file.
    """

    def __init__(
        self, message: str, diagnostics: tuple[Diagnostic, ...] | list[Diagnostic] = (), *, remedy: str = "", key: str = ""
    ):
        if not diagnostics:  # one fault, of the argument `key`
            text = (f"{key}: " if key else "") + message + (f"\n  help: {remedy}" if remedy else "")
            diagnostics = (Diagnostic(message, remedy, key=key, text=text),)
            message = text
        super().__init__(message, tuple(diagnostics))
        self.diagnostics = list(diagnostics)

    def __str__(self) -> str:
        return self.args[0]


class NoAnswer(PanpipeError, RuntimeError):
    """The question is right and has no answer: an order that cannot finish, no plan that fits."""


class MachineError(PanpipeError, RuntimeError):
    """The question is right but this machine cannot: no SimGrid here, a file that cannot be written."""


class InternalError(PanpipeError, RuntimeError):
    """A bug of Panpipe's."""
