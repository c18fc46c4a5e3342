"""The arena: schedules compared at one size."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from panpipe import _core
from panpipe._core import Table
from panpipe._families import OwnFamily
from panpipe._inputs import _count, _count_if_given, _fault, _files, _kind, _number, _text, _truth
from panpipe._schedules import Schedule
from panpipe._views import Documented, html_text, table_of

Entrant = Union[str, "os.PathLike[str]", Schedule, OwnFamily]
Ratio = Union[str, Sequence[float], Mapping[str, float]]
CLUSTERS: tuple[str, ...] = _core.arena_clusters
_JUDGED = "stages_per_rank weights makespan bubble held held_least bound over_bound on_front staleness".split()


def _deadlocks(judged: dict[str, Any]) -> str:
    kinds = ("asynchronous", "buffered", "blocking", "batched")
    return ", ".join(f"{one['receives']} {kind}" for one in judged.get("transfers", []) for kind in kinds if not one[kind])


@dataclass(frozen=True, slots=True, repr=False)
class Arena(Documented):
    """Schedules compared at one size, under ratios of costs, on clusters; `arena` returns it.

    Times are in forwards of a rank's share of a microbatch, memory in microbatches whose activations a rank holds, times on clusters in
    seconds. Its document is panpipe-arena/1.
    """

    document: dict[str, Any] = field(repr=False)
    text: str = field(repr=False)
    page: str = field(repr=False)

    @property
    def ranks(self) -> int:
        """Pipeline ranks."""
        return self.document["ranks"]

    @property
    def microbatches(self) -> int:
        """Microbatches of a step."""
        return self.document["microbatches"]

    @property
    def table(self) -> Table:
        """A row per schedule and ratio, the shortest step first: costs, schedule, legal, reason (why it is not), stages_per_rank, weights
        (copies of the model among the ranks, or versions), makespan (without a flush: the period), bubble (a share of 1), held (of the
        fullest rank), held_least, bound, over_bound (a share of 1), on_front, staleness (None: steps end with a flush), deadlocks ("late
        blocking, ...": receives and transfer semantics under which it does not finish), and for each cluster its simulated step in s,
        and as `CLUSTER, idle links` its estimate."""
        rows = []
        for one in self.document["rounds"]:
            for judged in one["schedules"]:
                row = {"costs": one["costs"], **{name: judged.get(name) for name in ("schedule", "legal")}}
                row["reason"] = judged.get("refused") or next(iter(judged.get("faults", [])), "")
                row |= {name: judged.get(name) for name in _JUDGED}
                row["deadlocks"] = _deadlocks(judged)
                for cluster, times in zip(self.document["clusters"], judged.get("clusters") or itertools.repeat({})):
                    row |= {cluster: times.get("simulated_s"), f"{cluster}, idle links": times.get("estimated_s")}
                rows.append(row)
        return table_of(rows)

    @property
    def winners(self) -> Table:
        """The fastest within a memory: costs, memory, cluster (empty: on free links), schedule (None: none holds so little)."""
        names = ("costs", "memory", "cluster", "schedule")
        rows = [{"costs": one["costs"], "cluster": "", **winner} for one in self.document["rounds"] for winner in one["winners"]]
        return table_of(({name: row.get(name) for name in names} for row in rows), names)

    def to_text(self) -> str:
        """The tables that the command prints."""
        return self.text

    def to_page(self) -> str:
        """A self-contained HTML page with the fronts of step and memory."""
        return self.page

    def _repr_html_(self) -> str:
        return html_text(self.text)

    def __repr__(self) -> str:
        schedules = len({judged["schedule"] for one in self.document["rounds"] for judged in one["schedules"]})
        return f"<panpipe.Arena: {schedules} schedules, {self.ranks} ranks, {self.microbatches} microbatches>"


def _ratio_text(ratio: Any) -> str:
    if isinstance(ratio, str):
        return ratio
    if isinstance(ratio, Mapping):
        if set(ratio) != set("FIW"):
            raise _fault("cost_ratios", f"a ratio has F, I and W, not {', '.join(map(str, ratio))}")
        ratio = [ratio[kind] for kind in "FIW"]
    if not isinstance(ratio, Iterable):
        raise _fault(
            "cost_ratios", f"a list of ratios is wanted, not of single values such as {ratio!r}", "cost_ratios=[(10, 12, 8)]"
        )
    numbers = [_number("cost_ratios", number) for number in ratio]
    return ":".join(f"{number:g}" if float(f"{number:g}") == number else repr(number) for number in numbers)


def _ratio_texts(ratios: Any) -> list[str]:
    if not isinstance(ratios, Iterable):
        raise _fault("cost_ratios", f"a list of ratios is wanted, not a {_kind(ratios)}")
    return [_ratio_text(ratio) for ratio in ([ratios] if isinstance(ratios, (str, Mapping)) else ratios)]


def _checked(entrants: tuple[Any, ...]) -> None:
    for entrant in entrants:
        if isinstance(entrant, (str, os.PathLike, Schedule, OwnFamily)):
            continue
        remedy = "panpipe.schedule(function) makes a family of a function" if callable(entrant) else ""
        if isinstance(entrant, (list, tuple)):
            remedy = "they are given one by one: panpipe.arena(mine, other)"
        raise _fault(
            "entrants", f"a family's name, a file, a Schedule or a family of one's own is wanted, not a {_kind(entrant)}", remedy
        )
    named = [entrant.name for entrant in entrants if isinstance(entrant, (Schedule, OwnFamily))]
    for name in named:
        if named.count(name) > 1:
            raise _fault("entrants", f"two are called {name}", "give one another name: @panpipe.schedule(name=...)")


def _given(entrant: Entrant, sizes: tuple[int, int], ratios: list[str]) -> tuple[str, list[str]]:
    """A name, and orders as CSV: one, or one for each ratio of costs."""
    if isinstance(entrant, Schedule):
        return entrant.name, [entrant.to_csv()]
    if not isinstance(entrant, OwnFamily):
        return os.fspath(entrant), []
    if not entrant.takes_costs():
        return entrant.name, [entrant(*sizes).to_csv()]
    # F = 1 is the forward of all stages of a rank.
    share = 1 / (entrant.options["stages_per_rank"] * entrant.options["sequence_splits"])
    orders = []
    for ratio in ratios:
        _, of_inputs, of_weights = _core.cost_ratio(ratio)
        orders.append(entrant(*sizes, {"F": share, "I": of_inputs * share, "W": of_weights * share}).to_csv())
    return entrant.name, orders


def arena(
    *entrants: Entrant,
    ranks: int | None = None,
    microbatches: int | None = None,
    cost_ratios: Sequence[Ratio] = ("even",),
    clusters: Sequence[str] = CLUSTERS,
    alone: bool = False,
    backend: str = "flow",
    threads: int | None = None,
) -> Arena:
    """Compare schedules with all families: legality, bubble, memory, distance to a proved bound, transfers, time on clusters.

    *entrants: Families with options ("hanayo,stages_per_rank=2"), CSV files, orders, functions that `schedule` decorated. One
        whose function has a parameter `costs` makes an order for each ratio.
    ranks, microbatches: Those of the first order or file unless given, else 4 and 8.
    cost_ratios: "even", "8k", "32k", "8k-recompute", "8k-lora", "8k-vocabulary"; "10:12:8", (10, 12, 8) or a dict for F, I and W; as text
        with more behind it: "8k:head=0.3:copy=2:lengths=2/1/1".
    clusters: As scenarios name them; () for none, which is much faster.
    alone: Without the families that are not named.
    backend: {"flow", "simgrid"}; panpipe's own max-min solver, or SimGrid.
    threads: Schedules at a time; all cores unless given.
    Returns Arena: Also of orders that are not legal: the table states why.
    Raises InputError: A name or file that cannot be read, an order of other sizes, a function that fails.

    >>> both = panpipe.arena("1f1b", "zb-h1", alone=True, clusters=())
    >>> both.table.to_pydict()["makespan"]
    [27.0, 33.0]
    """
    _checked(entrants)
    ranks, microbatches = _count_if_given("ranks", ranks), _count_if_given("microbatches", microbatches)
    orders = [one for one in entrants if isinstance(one, Schedule)]
    sizes = (
        ranks or next((order.ranks for order in orders), 4),
        microbatches or next((order.microbatches for order in orders), 8),
    )
    ratios = _ratio_texts(cost_ratios)
    given = [_given(entrant, sizes, ratios) for entrant in entrants]
    stated = (ranks, microbatches) if not any(isinstance(one, OwnFamily) for one in entrants) else sizes
    on = _files("clusters", clusters) or ["none"]
    document, text, page = _core.arena(
        given, stated, ratios, on, _truth("alone", alone), _text("backend", backend), _count("threads", threads, 0)
    )
    return Arena(json.loads(document), text, page)
