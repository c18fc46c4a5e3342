"""The passes that a schedule of one's own yields (`panpipe.schedule` as a decorator).

>>> from panpipe.actions import B, F, I, R, W
>>> F(3), I(3, stage=2)
(F(3), I(3, stage=2))

`F` is a forward, `I` the gradient of the inputs, `W` that of the weights, `B` both in one, `R` a forward again before a backward.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Action", "B", "F", "I", "R", "W"]


@dataclass(frozen=True)
class Action:
    """A pass of a stage for a microbatch.

    kind: {"F", "I", "W", "B", "R"}
    microbatch: From 0.
    stage: Number of the stage in the model, from 0, as in the CSV; None: the rank's only stage.
    part: Slice of the microbatch's sequence, from 0; None where sequences are not cut.
    """

    kind: str
    microbatch: int
    stage: int | None = None
    part: int | None = None

    def __repr__(self) -> str:
        stage = "" if self.stage is None else f", stage={self.stage}"
        part = "" if self.part is None else f", part={self.part}"
        return f"{self.kind}({self.microbatch}{stage}{part})"


def F(microbatch: int, stage: int | None = None, part: int | None = None) -> Action:
    """The forward."""
    return Action("F", microbatch, stage, part)


def I(microbatch: int, stage: int | None = None, part: int | None = None) -> Action:  # noqa: E743
    """The gradient of the stage's inputs: what the stage before waits for."""
    return Action("I", microbatch, stage, part)


def W(microbatch: int, stage: int | None = None, part: int | None = None) -> Action:
    """The gradient of the weights: nobody waits for it but the optimizer."""
    return Action("W", microbatch, stage, part)


def B(microbatch: int, stage: int | None = None, part: int | None = None) -> Action:
    """The whole backward: I and W in one."""
    return Action("B", microbatch, stage, part)


def R(microbatch: int, stage: int | None = None, part: int | None = None) -> Action:
    """The forward again, right before a backward: the first one keeps only its inputs."""
    return Action("R", microbatch, stage, part)
