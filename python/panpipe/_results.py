"""Results of checks, predictions, plans and sweeps."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from panpipe._core import Table
from panpipe._errors import NoAnswer
from panpipe._views import Tabled, View, html_text, table_of

if TYPE_CHECKING:
    from panpipe._documents import ImportedJob

_FIGURES = ("step_time_s", "peak_memory_bytes", "fits", "mfu")
_TEXTS = ("plan_yaml", "scenario_yaml", "text", "svg", "page", "trace")
_SPAN = dict.fromkeys(("device", "lane", "action", "microbatch", "stage", "start_s", "end_s")) | {"bytes": 0, "waiting_s": 0.0}


def _seconds(value: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{value / size:.4g} {unit}"
    return f"{value / 1e-6:.4g} us"


def _numbers(texts: list[str]) -> list[Any]:
    """As numbers where all of them are."""
    for kind in (int, float):
        try:
            return [kind(text) for text in texts]
        except ValueError:
            continue
    return texts


def _stored_prediction(texts: dict[str, str]) -> Prediction:
    """A prediction that came from another process: its document, in the place of the module's object."""
    document = json.loads(texts["document"])
    metrics = document["metrics"]
    step = SimpleNamespace(kind=document["kind"], **{name: metrics[name] for name in _FIGURES})

    def document_text(timeline: bool) -> str:
        if timeline:
            return texts["document"]
        memory = [{key: value for key, value in row.items() if key != "curve"} for row in document["memory"]]
        return json.dumps({key: value for key, value in (document | {"memory": memory}).items() if key != "timeline"})

    step.document = document_text
    step.metrics = lambda: dict(metrics)
    step.timeline = lambda: table_of(
        ({name: span.get(name, _SPAN[name]) for name in _SPAN} for span in document["timeline"]), _SPAN
    )
    for name in _TEXTS:
        setattr(step, name, lambda text=texts[name]: text)
    return Prediction(step)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Prediction:
    """A predicted training step; `estimate` and `simulate` return it.

    In a notebook it shows its figures and its picture. It can be pickled: what arrives elsewhere holds the same figures.
    """

    _core: Any
    _cache: dict[str, Any] = field(default_factory=dict)

    kind = View[str]('"estimated" (idle links) or "simulated" (shared links).')
    step_time_s = View[float]("Seconds of one training step.")
    peak_memory_bytes = View[int]("Bytes of the fullest device.")
    fits = View[bool]("Whether every device holds what it must.")
    mfu = View[float]("Model FLOP utilisation, a share of 1; 0 where the peak is not known.")

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
    def cautions(self) -> list[str]:
        """What the scenario's trainer cannot run, what to know before it starts the plan, and a device that other
        work disturbed while it was measured."""
        return self.to_dict().get("cautions", [])

    @property
    def blame(self) -> list[dict[str, Any]]:
        """A dict for each slow device and each degraded link of the cluster: device or link, index, rank, rate, step_time_s (the
        step without it), lost_s, of_step. Empty where the machine is sound."""
        return self.to_dict().get("blame", [])

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
        return html_text(self.to_text()) + self.to_svg()

    def __repr__(self) -> str:
        room = "fits" if self.fits else "does not fit"
        peak = f"{self.peak_memory_bytes / 2**30:.2f} GiB"
        return f"<panpipe.Prediction: {self.kind} step {_seconds(self.step_time_s)}, peak {peak}, {room}>"

    def __reduce__(self):
        texts = {name: getattr(self._core, name)() for name in _TEXTS}
        return _stored_prediction, (texts | {"document": self._core.document(True)},)


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
    links, empty where it was not simulated) and `settings`, the keys that it decides. Beside a plan of yours: `gain_over_yours`, the
    share of its step that this one saves, and whether the two are a tie."""

    summary: str
    metrics: dict[str, float]
    simulated: dict[str, float]
    settings: dict[str, str]
    gain_over_yours: float | None = None
    tie_with_yours: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class Plan(Tabled):
    """The answer of a search for plans.

    candidates: Best first; empty where nothing fits, then `reason` states why.
    yaml: The best plan that the engines can run, as plan.yaml; empty where there is none.
    proved_optimal: Whether nothing that was searched is better.
    document: panpipe-plan/1.
    yours: The plan that the scenario states, predicted as the candidates are; None where it states no whole plan.
    job: The trainer's job that was given in place of a scenario; its `.scenario` is what `export` takes with the plan. Else None.
    """

    candidates: list[Candidate]
    yaml: str = field(repr=False)
    proved_optimal: bool
    reason: str
    document: dict[str, Any] = field(repr=False)
    yours: Candidate | None = None
    job: ImportedJob | None = field(repr=False, default=None)

    @property
    def best(self) -> Candidate:
        """The first candidate; NoAnswer where there is none."""
        if not self.candidates:
            raise NoAnswer(self.reason or "no feasible plan")
        return self.candidates[0]

    @property
    def table(self) -> Table:
        """A row per candidate: summary, then its metrics."""
        return table_of(({"summary": one.summary, **one.metrics} for one in self.candidates), ["summary"])

    def __repr__(self) -> str:
        if not self.candidates:
            return f"<panpipe.Plan: none: {self.reason or 'no feasible plan'}>"
        count = f"{len(self.candidates)} candidate{'' if len(self.candidates) == 1 else 's'}"
        proved = ", proved optimal" if self.proved_optimal else ""
        return f"<panpipe.Plan: {self.best.summary}: step {_seconds(self.best.metrics['step_time_s'])}; {count}{proved}>"


@dataclass(frozen=True, slots=True)
class Sizes(Tabled):
    """The best plan on clusters of several sizes.

    key: The key of the scenario that states how large the cluster is.
    plans: Number of GPUs to the Plan for so many.
    best: GPUs of the size that a deadline, a budget or an objective chooses; None where no size keeps them, or nothing chooses.
    document: panpipe-sizes/1, with the run's time and costs of each size; empty where nothing chooses.
    job: As of Plan.
    """

    key: str
    plans: dict[int, Plan]
    best: int | None = None
    document: dict[str, Any] = field(repr=False, default_factory=dict)
    job: ImportedJob | None = field(repr=False, default=None)

    @property
    def table(self) -> Table:
        """A row per size: gpus, plan, step_time_s, peak_memory_bytes, reason."""
        rows = []
        for gpus, plan in self.plans.items():
            best = plan.candidates[0] if plan.candidates else None
            figures = {name: best.metrics.get(name) if best else None for name in ("step_time_s", "peak_memory_bytes")}
            rows.append({"gpus": gpus, "plan": best.summary if best else None, **figures, "reason": plan.reason})
        return table_of(rows)


@dataclass(frozen=True, slots=True)
class Largest(Tabled):
    """The largest microbatch, or the longest sequence, that fits; `largest` returns it.

    value: On the first device; 0 where nothing fits.
    devices: As in the document, a dict for each device: what fits surely, probably and at all, the needs there and at the next value,
        and the part of memory that ends it.
    document: panpipe-largest/1.
    """

    value: int
    devices: list[dict[str, Any]]
    document: dict[str, Any] = field(repr=False)

    @property
    def table(self) -> Table:
        """A row per device: device, surely, probably, fits, need_bytes, limit_bytes, next, next_need_bytes, ends_by."""
        rows = []
        for one in self.devices:
            at, beyond, end = one["largest"] or {}, one["next"] or {}, one.get("ends_by") or {}
            row = {"device": one["device"], "surely": one.get("surely"), "probably": one.get("probably"), "fits": one["fits"]}
            row |= {"need_bytes": at.get("need_bytes"), "limit_bytes": at.get("limit_bytes")}
            row |= {"next": beyond.get("value"), "next_need_bytes": beyond.get("need_bytes"), "ends_by": end.get("part")}
            rows.append(row)
        return table_of(rows)


@dataclass(frozen=True, slots=True)
class Sweep(Tabled):
    """The cells of a grid.

    document: panpipe-sweep/1.
    cells: As in the document, in the grid's order.
    page: A self-contained HTML page with table and plots.
    text: The table for a terminal.
    """

    document: dict[str, Any] = field(repr=False)
    cells: list[dict[str, Any]]
    page: str = field(repr=False)
    text: str = field(repr=False)

    @property
    def table(self) -> Table:
        """A row per cell: a column for each key that varies, then status, reason, plan, and the metrics (None without an answer)."""
        keys = [axis["key"] for axis in self.document["axes"]]
        columns = [_numbers([cell["settings"][key] for cell in self.cells]) for key in keys]
        rows = []
        for cell, *settings in zip(self.cells, *columns):
            words = {name: cell.get(name) or "" for name in ("status", "reason", "plan")}
            rows.append({**dict(zip(keys, settings)), **words, **(cell["metrics"] or {})})
        return table_of(rows)
