"""Results of checks, predictions, plans and sweeps."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass, field
from typing import Any

from panpipe import _core
from panpipe._core import Table


def _seconds(value: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size or unit == "us":
            return f"{value / size:.4g} {unit}"
    return f"{value:.4g} s"


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _gib(value: float) -> str:
    return f"{value / 2**30:.2f} GiB"


class _StoredStep:
    """A step that came from another process: its document, behind the methods of _core.PredictedStep."""

    def __init__(self, texts: dict[str, str]):
        self._texts = texts
        self._document = json.loads(texts["document"])
        metrics = self._document["metrics"]
        self.kind: str = self._document["kind"]
        self.step_time_s: float = metrics["step_time_s"]
        self.peak_memory_bytes: int = metrics["peak_memory_bytes"]
        self.fits: bool = metrics["fits"]
        self.mfu: float = metrics["mfu"]

    def metrics(self) -> dict[str, Any]:
        return dict(self._document["metrics"])

    def document(self, timeline: bool) -> str:
        if timeline:
            return self._texts["document"]
        rest = {key: value for key, value in self._document.items() if key != "timeline"}
        rest["memory"] = [{key: value for key, value in row.items() if key != "curve"} for row in rest["memory"]]
        return json.dumps(rest)

    def timeline(self) -> Table:
        rows = self._document["timeline"]
        columns = {
            name: [row[name] for row in rows] for name in ("device", "lane", "action", "microbatch", "stage", "start_s", "end_s")
        }
        columns["bytes"] = [row.get("bytes", 0) for row in rows]
        columns["waiting_s"] = [float(row.get("waiting_s", 0)) for row in rows]
        return _core.table_of(columns)

    def __getattr__(self, name: str):
        try:
            text = self.__dict__["_texts"][name]
        except KeyError:
            raise AttributeError(name) from None
        return lambda: text


def _stored_prediction(texts: dict[str, str]) -> Prediction:
    return Prediction(_StoredStep(texts))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Prediction:
    """A predicted training step; `estimate` and `simulate` return it.

    In a notebook it shows its figures and its picture. It can be pickled: what arrives elsewhere holds the same figures.
    """

    _core: Any
    _cache: dict[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """ "estimated" (idle links) or "simulated" (shared links)."""
        return self._core.kind

    @property
    def step_time_s(self) -> float:
        """Seconds of one training step."""
        return self._core.step_time_s

    @property
    def peak_memory_bytes(self) -> int:
        """Bytes of the fullest device."""
        return self._core.peak_memory_bytes

    @property
    def fits(self) -> bool:
        """Whether every device holds what it must."""
        return self._core.fits

    @property
    def mfu(self) -> float:
        """Model FLOP utilisation, a share of 1; 0 where the peak is not known."""
        return self._core.mfu

    @property
    def metrics(self) -> dict[str, Any]:
        """The figures as `panpipe estimate --json` has them under "metrics": times in s, memory in bytes, shares of 1; "per_device"
        is a list with one dict a device."""
        if "metrics" not in self._cache:
            self._cache["metrics"] = self._core.metrics()
        return self._cache["metrics"]

    @property
    def timeline(self) -> Table:
        """A row per span: device, lane, action, microbatch, stage, start_s, end_s, bytes, waiting_s. Devices that do the same as
        another have no rows of their own."""
        if "timeline" not in self._cache:
            self._cache["timeline"] = self._core.timeline()
        return self._cache["timeline"]

    @property
    def assumed(self) -> list[str]:
        """Where the model differs from its file, as `panpipe estimate` reports it; empty where it does not."""
        return self.to_dict().get("assumed", [])

    @property
    def plan(self) -> str:
        """The plan as plan.yaml has it: write it into a file for `plan=` of another call."""
        return self._core.plan_yaml()

    @property
    def scenario(self) -> str:
        """The scenario as it was understood, as YAML that loads again; comments state where each value comes from."""
        return self._core.scenario_yaml()

    def to_dict(self, timeline: bool = False) -> dict[str, Any]:
        """The result document (panpipe-result/1).

        timeline: With every span, and the curve of each device's memory.
        """
        return json.loads(self._core.document(timeline))

    def to_text(self) -> str:
        """The table that the command prints."""
        return self._core.text()

    def to_svg(self) -> str:
        """The picture of the step, for light and dark backgrounds."""
        return self._core.svg()

    def to_page(self) -> str:
        """A self-contained HTML page: drawing, breakdown, hints."""
        return self._core.page()

    def to_trace(self) -> str:
        """The trace that ui.perfetto.dev opens, as JSON."""
        return self._core.trace()

    def _repr_svg_(self) -> str:
        return self.to_svg()

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.to_text())}</pre>{self.to_svg()}"

    def __repr__(self) -> str:
        room = "fits" if self.fits else "does not fit"
        return f"<panpipe.Prediction: {self.kind} step {_seconds(self.step_time_s)}, peak {_gib(self.peak_memory_bytes)}, {room}>"

    def __reduce__(self):
        step = self._core
        texts = {"document": step.document(True)}
        for name in ("plan_yaml", "scenario_yaml", "text", "svg", "page", "trace"):
            texts[name] = getattr(step, name)()
        return _stored_prediction, (texts,)


@dataclass(frozen=True, slots=True)
class Checked:
    """How a scenario is understood.

    values: Key ("parallel.tensor") to its value as text.
    origins: Key to where the value comes from: "my.yaml:7", "--set", "default", "derived: ...".
    text: The scenario as YAML that loads again.
    stages, devices: Of its plan.
    """

    values: dict[str, str]
    origins: dict[str, str]
    text: str = field(repr=False)
    stages: int
    devices: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """One plan that a search found: `summary` in a line, `metrics` (times in s, memory in bytes), `simulated` (the same under shared
    links, empty where it was not simulated) and `settings`, the keys that it decides."""

    summary: str
    metrics: dict[str, float]
    simulated: dict[str, float]
    settings: dict[str, str]


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """The answer of a search for plans.

    candidates: Best first; empty where nothing fits, then `reason` states why.
    yaml: The best plan that the engines can run, as plan.yaml; empty where there is none.
    proved_optimal: Whether nothing that was searched is better.
    """

    candidates: list[Candidate]
    yaml: str = field(repr=False)
    proved_optimal: bool
    reason: str
    document: dict[str, Any] = field(repr=False)

    @property
    def best(self) -> Candidate:
        """The first candidate; NoAnswer where there is none."""
        if not self.candidates:
            from panpipe._errors import NoAnswer

            raise NoAnswer(self.reason or "no feasible plan")
        return self.candidates[0]

    def to_dict(self) -> dict[str, Any]:
        """The document panpipe-plan/1."""
        return self.document

    @property
    def table(self) -> Table:
        """A row per candidate: summary, then its metrics."""
        names = list(dict.fromkeys(name for candidate in self.candidates for name in candidate.metrics))
        columns: dict[str, list] = {"summary": [candidate.summary for candidate in self.candidates]}
        for name in names:
            columns[name] = [candidate.metrics.get(name) for candidate in self.candidates]
        return _core.table_of(columns)

    def _repr_html_(self) -> str:
        return _html_table(self.table)

    def __repr__(self) -> str:
        if not self.candidates:
            return f"<panpipe.Plan: none: {self.reason or 'no feasible plan'}>"
        count = f"{len(self.candidates)} candidate{'' if len(self.candidates) == 1 else 's'}"
        proved = ", proved optimal" if self.proved_optimal else ""
        return f"<panpipe.Plan: {self.best.summary}: step {_seconds(self.best.metrics['step_time_s'])}; {count}{proved}>"


@dataclass(frozen=True, slots=True)
class Sizes:
    """The best plan on clusters of several sizes.

    key: The key of the scenario that states how large the cluster is.
    plans: Number of GPUs to the Plan for so many.
    best: GPUs of the size that a deadline, a budget or an objective chooses; None where no size keeps them, or nothing chooses.
    """

    key: str
    plans: dict[int, Plan]
    best: int | None = None
    document: dict[str, Any] = field(repr=False, default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The document panpipe-sizes/1, with the run's time and costs of each size; empty where nothing chooses."""
        return self.document

    @property
    def table(self) -> Table:
        """A row per size: gpus, plan, step_time_s, peak_memory_bytes, reason."""
        best = [plan.candidates[0] if plan.candidates else None for plan in self.plans.values()]
        return _core.table_of(
            {
                "gpus": list(self.plans),
                "plan": [found.summary if found else None for found in best],
                "step_time_s": [found.metrics.get("step_time_s") if found else None for found in best],
                "peak_memory_bytes": [found.metrics.get("peak_memory_bytes") if found else None for found in best],
                "reason": [plan.reason for plan in self.plans.values()],
            }
        )

    def _repr_html_(self) -> str:
        return _html_table(self.table)


@dataclass(frozen=True, slots=True)
class Sweep:
    """The cells of a grid.

    cells: As in the document panpipe-sweep/1, in the grid's order.
    page: A self-contained HTML page with table and plots.
    text: The table for a terminal.
    """

    document: dict[str, Any] = field(repr=False)
    cells: list[dict[str, Any]]
    page: str = field(repr=False)
    text: str = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """The document panpipe-sweep/1."""
        return self.document

    @property
    def table(self) -> Table:
        """A row per cell: a column for each key that varies, then status, reason, plan, and the metrics (None without an answer)."""
        keys = [axis["key"] for axis in self.document["axes"]]
        names = list(dict.fromkeys(name for cell in self.cells for name in cell["metrics"] or {}))
        columns: dict[str, list] = {key: [_number(cell["settings"][key]) for cell in self.cells] for key in keys}
        for key, values in columns.items():
            if any(isinstance(value, str) for value in values):
                columns[key] = [cell["settings"][key] for cell in self.cells]
        for name in ("status", "reason", "plan"):
            columns[name] = [cell.get(name) or "" for cell in self.cells]
        for name in names:
            columns[name] = [(cell["metrics"] or {}).get(name) for cell in self.cells]
        return _core.table_of(columns)

    def _repr_html_(self) -> str:
        return _html_table(self.table)


def _html_table(table: Table, most: int = 60) -> str:
    columns = table.to_pydict()
    shown = [
        [
            html.escape("" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value))
            for value in column[:most]
        ]
        for column in columns.values()
    ]
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    rows = "".join("<tr>" + "".join(f"<td>{value}</td>" for value in row) + "</tr>" for row in zip(*shown))
    more = f"<p>{len(table) - most} more rows</p>" if len(table) > most else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}"
