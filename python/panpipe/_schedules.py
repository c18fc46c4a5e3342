"""Orders of the passes of a step, and the families that make them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from panpipe import _core
from panpipe._core import Table
from panpipe._inputs import _count
from panpipe._views import View, html_text


@dataclass(frozen=True, slots=True)
class ScheduleProblem:
    """A fault of an order; rank and position (in the rank's row, from 0) are -1 where it has none."""

    rank: int
    position: int
    action: str
    message: str


@dataclass(frozen=True, slots=True)
class Family:
    """A family of schedules: its options with their defaults as text, and where it was published."""

    name: str
    summary: str
    source: str
    options: dict[str, str]


def _restored_schedule(name: str, csv: str, costs: str, braid: str, bound: float | None, notes: list[str]) -> Schedule:
    return Schedule(_core.restored_schedule(name, csv, costs, braid, bound, notes), costs)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Schedule:
    """An order of the passes of a step, with what it takes under given costs. Times are in the unit of the costs."""

    _core: Any
    _costs: str = ""

    name = View[str]("Of the family, or of the file.")
    ranks = View[int]("Pipeline ranks.")
    microbatches = View[int]("Microbatches of a step.")
    stages = View[int]("Stages of the model, over all ranks.")
    legal = View[bool]("Whether the order can run and does everything once; `problems` states what is wrong.")
    makespan = View[float]("Of the step. NoAnswer where the order is not legal; so with the following figures.")
    bubble_step = View[float]("Idle share of the ranks over the whole step.")
    bubble_span = View[float]("Idle share of the ranks, each inside its own first-to-last span.")
    peak_activations = View[list[int]]("Activations held at once, rank by rank.")
    lower_bound = View["float | None"]("Of searched families: no order of these sizes within this memory has a shorter step.")

    @property
    def problems(self) -> list[ScheduleProblem]:
        """What is wrong, the first fault first; for an order that cannot finish each rank's blocked action and the cycle."""
        return [ScheduleProblem(*problem) for problem in self._core.problems()]

    @property
    def timeline(self) -> Table:
        """A row per action: rank, action, microbatch, stage, start, end."""
        return self._core.actions()

    def semantics(self, which: str = "all") -> dict[str, Any]:
        """Whether the order finishes under kinds of transfers: "asynchronous", "buffered", "blocking", "batched", or "all"."""
        return json.loads(self._core.semantics(which))

    def to_csv(self, torch: bool = False) -> str:
        """The order as CSV; with `torch` as PyTorch's runtime loads it."""
        return self._core.csv(torch)

    def to_dict(self) -> dict[str, Any]:
        """The document panpipe-schedule/1."""
        return json.loads(self._core.document())

    def to_svg(self) -> str:
        """The picture of the order."""
        return self._core.svg()

    def to_text(self, width: int = 120) -> str:
        """A drawing for a terminal of so many columns; of an order that is not legal a grid with the fault marked."""
        return self._core.drawing(_count("width", width))

    def _repr_svg_(self) -> str | None:
        return self.to_svg() if self.legal else None

    def _repr_html_(self) -> str | None:
        return None if self.legal else html_text(self.to_text())

    def __repr__(self) -> str:
        sizes = f"{self.name}, {self.ranks} ranks, {self.stages} stages, {self.microbatches} microbatches"
        state = f"makespan {self.makespan:g}, bubble {self.bubble_step:.2%}" if self.legal else "not legal"
        return f"<panpipe.Schedule: {sizes}: {state}>"

    def __reduce__(self):
        return _restored_schedule, (self.name, self.to_csv(), self._costs, self._core.braid, self.lower_bound, self._core.notes)
