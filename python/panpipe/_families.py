"""Families of schedules of one's own: `panpipe.schedule` as a decorator."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Union

from panpipe import _core
from panpipe._child import Fault, place_in, place_text, run_apart
from panpipe._errors import Diagnostic, InputError
from panpipe._inputs import _costs, _count, _seconds, _text, _whole
from panpipe._schedules import Schedule
from panpipe.actions import Action

Placement = Union[str, Callable[[int, int], int]]
Costs = Union[Mapping[str, Any], str]

DEADLINE_S = 10.0
MEMORY_BYTES = 1 << 30
_SIZES = ("rank", "ranks", "microbatches", "stages", "costs")  # parameters that are filled in; the others are options
_EVERY = ("stages_per_rank", "sequence_splits")  # options of every family
# Of a stage and a microbatch (a slice of one): F, R, I, W; a send and a receive of each direction; what is parked before I and again
# behind it; gathers and reductions around the passes, which have no microbatch.
_MOST_EACH, _MOST_BESIDES = 16, 16
_PASSES = ("F", "I", "W", "B", "R", "SEND_F", "RECV_F", "SEND_B", "RECV_B")  # once for a stage and a microbatch


@dataclass(frozen=True)
class _Shape:
    """What the sizes of a call make of a family."""

    ranks: int
    microbatches: int
    splits: int
    place: list[int]  # rank of each stage

    def stages_of(self, rank: int) -> list[int]:
        return [stage for stage, at in enumerate(self.place) if at == rank]

    def csv(self, rows: list[list[str]]) -> str:
        sizes = f"ranks={self.ranks} microbatches={self.microbatches} stages={len(self.place)} seq_splits={self.splits}"
        lines = [f"#pipeline {sizes}", f"#place {','.join(map(str, self.place))}", *(",".join(row) for row in rows)]
        return "\n".join(lines) + "\n"


def _differ(one: Any, other: Any) -> bool:
    try:
        return bool(one != other)
    except ValueError:  # arrays compare value by value
        return one is not other


class _Row:
    """The cells of a rank, checked as they come: the first fault is at the user's line."""

    def __init__(self, rank: int, shape: _Shape):
        self.cells: list[str] = []
        self._rank, self._shape = rank, shape
        self._stages = shape.stages_of(rank)
        self._seen: dict[tuple[int, str, int, int], int] = {}
        self._most = _MOST_EACH * max(1, len(self._stages)) * shape.microbatches * shape.splits + _MOST_BESIDES

    def _fault(self, what: str, remedy: str = "") -> Fault:
        return Fault(f"rank {self._rank} yields {what}", remedy)

    def add(self, given: Any) -> None:
        text = self._text_of(given)
        try:
            actions = _core.actions_of_cell(text)
        except InputError as error:
            raise self._fault(f"{text!r}: {error.diagnostics[0].message}", error.diagnostics[0].remedy) from None
        for action in actions:
            self._check(action, text)
        self.cells.append(text)
        if len(self.cells) > self._most:
            passes = f"{len(self._stages)} x {self._shape.microbatches * self._shape.splits} stages and microbatches"
            raise self._fault(
                f"more than {self._most} actions: {_MOST_EACH} for each of its {passes}, "
                f"and {_MOST_BESIDES} besides, are more than any order has"
            )

    def _text_of(self, given: Any) -> str:
        if isinstance(given, str):
            return given
        if not isinstance(given, Action):
            raise self._fault(
                f"{given!r}, which is no action",
                "yield F(0), or a cell of the CSV as text, such as '2F0'; from panpipe.actions import F, I, W, B, R",
            )
        stage = given.stage
        if stage is None:
            if len(self._stages) != 1:
                raise self._fault(
                    f"{given!r} and has the stages {self._stages}",
                    f"say which: {given.kind}({given.microbatch}, stage={(self._stages or [0])[-1]})",
                )
            stage = self._stages[0]
        microbatch = self._number_of(given, "microbatch", given.microbatch)
        part = None if given.part is None else self._number_of(given, "part", given.part)
        whole = part is None or part == 0 and self._shape.splits == 1
        return f"{self._number_of(given, 'stage', stage)}{given.kind}{microbatch}" + ("" if whole else f".{part}")

    def _number_of(self, given: Action, what: str, value: Any) -> int:
        number = value if type(value) is int else _whole(value)
        if number is None:
            raise self._fault(f"{given!r}: the {what} is a whole number, not {value!r}")
        return number

    def _check(self, action: tuple[int, str, int, int], text: str) -> None:
        stage, kind, microbatch, split = action
        shape = self._shape
        sizes = {"stage": len(shape.place), "microbatch": shape.microbatches, "slice": shape.splits}
        for value, (what, size) in zip((stage, microbatch, split), sizes.items()):
            if value >= size:
                raise self._fault(f"{text}: {what} {value} of {size}: they are numbered from 0")
        if stage >= 0 and shape.place[stage] != self._rank:
            raise self._fault(
                f"{text}: stage {stage} is on rank {shape.place[stage]}, and this rank has {self._stages}",
                "the parameter `stages` of the function lists the stages of its rank; placement= says where stages are",
            )
        if kind not in _PASSES:
            return
        first = self._seen.setdefault((stage, kind, microbatch, split), len(self.cells))
        if first != len(self.cells):
            raise self._fault(
                f"{text} twice, as action {first} and as action {len(self.cells)}",
                "every stage runs every pass of a microbatch once",
            )
        for other in {"B": ("I", "W"), "I": ("B",), "W": ("B",)}.get(kind, ()):
            if (stage, other, microbatch, split) in self._seen:
                raise self._fault(
                    f"{text} behind the {other} of the same microbatch",
                    "B is the whole backward, I and W are its halves: yield the one or the two",
                )


def _take(made: Any, name: str, take: Callable[[Any], None]) -> None:
    """Each thing that it yields; a fault stands where the generator does."""
    if not isinstance(made, Iterable) or isinstance(made, (str, bytes)):
        raise Fault(f"returns {made!r}", f"{name} yields its actions: yield F(0)")
    iterator = iter(made)
    for given in iterator:
        try:
            take(given)
        except Fault as fault:
            raise fault.at(place_in(iterator)) from None


def _rows(
    function: Callable[..., Any], name: str, arguments: dict[str, Any], wanted: frozenset[str], shape: _Shape
) -> list[list[str]]:
    rows = [_Row(rank, shape) for rank in range(shape.ranks)]

    def made(**of_rank: Any) -> Any:
        sizes = {"ranks": shape.ranks, "microbatches": shape.microbatches, **of_rank}
        return function(**{key: value for key, value in sizes.items() if key in wanted}, **arguments)

    if "rank" in wanted:
        for rank, row in enumerate(rows):
            _take(made(rank=rank, stages=shape.stages_of(rank)), name, row.add)
    else:

        def take(pair: Any) -> None:
            rank = _whole(pair[0]) if isinstance(pair, (tuple, list)) and len(pair) == 2 else None
            if rank is None or not 0 <= rank < shape.ranks:
                raise Fault(
                    f"yields {pair!r} in place of a rank and its action",
                    f"yield rank, F(0), with ranks from 0 to {shape.ranks - 1}; or take a parameter `rank`, and yield that rank's actions",
                )
            rows[rank].add(pair[1])

        _take(made(stages=[shape.stages_of(rank) for rank in range(shape.ranks)]), name, take)
    for rank, row in enumerate(rows):
        if not row.cells:
            raise Fault(f"rank {rank} yields nothing", "every rank has a stage, and every stage its passes")
    return [row.cells for row in rows]


def _placed(placement: Placement, ranks: int, stages: int) -> list[int]:
    if callable(placement):
        place = []
        for stage in range(stages):
            given = placement(stage, ranks)
            rank = _whole(given)
            if rank is None or not 0 <= rank < ranks:
                raise Fault(f"has a placement that puts stage {stage} on rank {given!r}: ranks are 0 to {ranks - 1}")
            place.append(rank)
        for rank in range(ranks):
            if rank not in place:
                raise Fault(f"has a placement that leaves rank {rank} without a stage")
        return place
    if placement == "loop":
        return [stage % ranks for stage in range(stages)]
    return [stage % ranks if stage // ranks % 2 == 0 else ranks - 1 - stage % ranks for stage in range(stages)]


def _costs_as_dict(text: str) -> dict[str, Any]:
    """All of F, I, W, B, comm, with the defaults of `schedule`; a list where stages differ."""
    costs: dict[str, Any] = {"F": 1.0, "I": 1.0, "W": 1.0, "comm": 0.0}
    for item in filter(None, text.split(",")):
        key, _, value = item.partition("=")
        costs[key] = [float(part) for part in value.split("/")] if "/" in value else float(value)
    if "B" not in costs and isinstance(costs["I"], float) and isinstance(costs["W"], float):
        costs["B"] = costs["I"] + costs["W"]
    return costs


class OwnFamily:
    """A family of schedules that a Python function makes; `panpipe.schedule` as a decorator returns it.

    Called with its sizes it gives a `Schedule`. It takes the place of a schedule's name in `estimate`, `simulate`, `sweep`, `check`, `plan`
    and `run` (`set={"schedule": family}`), which state the sizes, and takes part in `arena`.

    name: As tables and messages show it.
    options: Option to its default: stages_per_rank, sequence_splits, and the function's own parameters.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str = "",
        placement: Placement = "loop",
        deadline_s: float = DEADLINE_S,
        memory_bytes: int = MEMORY_BYTES,
        options: Mapping[str, Any] | None = None,
    ):
        self._function = function
        self._placement = placement
        self._base: OwnFamily | None = None
        self.name = _text("name", name) or getattr(function, "__name__", type(function).__name__)
        self._deadline_s, self._memory_bytes = self._limits(deadline_s, memory_bytes)
        parameters = inspect.signature(function).parameters
        for name, parameter in parameters.items():
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise InputError(
                    f"{self.name}: the parameter {name!r} has no name to give it by: options are parameters with defaults"
                )
            if parameter.default is parameter.empty and name not in (*_SIZES, *_EVERY):
                raise InputError(
                    f"{self.name}: the parameter {name!r} has no default",
                    remedy=f"{', '.join(_SIZES)} are filled in; any other is an option of the family: {name}=1",
                )
        if not callable(placement) and placement not in ("loop", "wave"):
            raise InputError(f"{self.name}: placement is 'loop', 'wave' or a function of (stage, ranks), not {placement!r}")
        if any(family[0] == self.name for family in _core.schedule_families()):
            raise InputError(
                f"{self.name} is a family of Panpipe's",
                remedy=f'give this one another name: @panpipe.schedule(name="my-{self.name}")',
            )
        self._wanted = frozenset(parameters)
        own = {key: one.default for key, one in parameters.items() if key not in _SIZES and one.default is not one.empty}
        self.options: dict[str, Any] = dict.fromkeys(_EVERY, 1) | own
        self.options = self._with(options or {})
        functools.update_wrapper(self, function, updated=())

    def _with(self, options: Mapping[str, Any]) -> dict[str, Any]:
        for key in options:
            if key not in self.options:
                close = difflib.get_close_matches(key, self.options, 1)
                raise InputError(
                    f"{self.name} has no option '{key}'"
                    + (f", did you mean '{close[0]}'?" if close else f"; it has {', '.join(self.options)}")
                )
        return self.options | dict(options)

    def _limits(self, deadline_s: Any, memory_bytes: Any) -> tuple[float, int]:
        return _seconds(f"{self.name}: deadline_s", deadline_s), _count(f"{self.name}: memory_bytes", memory_bytes, most=2**62)

    def with_options(self, **options: Any) -> OwnFamily:
        """The same family with other defaults, for tables that compare settings."""
        given = self._with(options)
        other = OwnFamily(
            self._function,
            name=self.title(given),
            placement=self._placement,
            options=given,
            deadline_s=self._deadline_s,
            memory_bytes=self._memory_bytes,
        )
        other._base = self._base or self
        return other

    def title(self, options: Mapping[str, Any]) -> str:
        """The name with the options that are not its defaults."""
        first = self._base or self
        return " ".join([first.name, *(f"{key}={value}" for key, value in options.items() if _differ(value, first.options[key]))])

    def __reduce__(self) -> Any:
        """By its name, as functions are: the module that defines it is imported where it is loaded."""
        if self._base is not None:
            return _with_options_of, (self._base, self.options)
        return getattr(self._function, "__qualname__", self.name)

    def takes_costs(self) -> bool:
        """Whether its orders depend on the costs."""
        return "costs" in self._wanted

    def __call__(
        self,
        ranks: int,
        microbatches: int,
        costs: Costs = "",
        *,
        deadline_s: float | None = None,
        memory_bytes: int | None = None,
        **options: Any,
    ) -> Schedule:
        """Make the order in a process of its own, check and evaluate it.

        costs: As of `panpipe.schedule`; the function sees them if it has a parameter `costs`.
        deadline_s: Seconds that the function may take; 10 unless given here or to the decorator.
        memory_bytes: Memory that it may take beyond what this process has; 1 GiB unless given.
        **options: Of the family.
        Returns Schedule: Also of an order that is not legal: `.legal` and `.problems` report that.
        Raises InputError: The function raises, does not end, takes too much memory, yields something else than actions, or an
            action twice.
        """
        all_options = self._with(options)
        text_of_costs = _costs(costs)
        _core.check_costs(text_of_costs)
        given = {"ranks": ranks, "microbatches": microbatches, **{key: all_options[key] for key in _EVERY}}
        ranks, microbatches, per_rank, splits = (_count(f"{self.name}: {key}", count) for key, count in given.items())
        if ranks * microbatches * per_rank * splits > _core.most_actions:
            raise InputError(
                f"{self.name}: {ranks} ranks x {per_rank} stages x {microbatches} microbatches are more than {_core.most_actions:g} forwards"
            )
        arguments = {key: value for key, value in all_options.items() if key in self._wanted}
        if self.takes_costs():
            arguments["costs"] = _costs_as_dict(text_of_costs)

        def work() -> str:
            shape = _Shape(ranks, microbatches, splits, _placed(self._placement, ranks, ranks * per_rank))
            return shape.csv(_rows(self._function, self.name, arguments, self._wanted, shape))

        title = self.title(all_options)
        limits = self._limits(
            self._deadline_s if deadline_s is None else deadline_s, self._memory_bytes if memory_bytes is None else memory_bytes
        )
        try:
            csv = run_apart(work, *limits)
        except Fault as fault:
            raise _input_error(f"{title} of {ranks} ranks and {microbatches} microbatches", fault) from None
        return Schedule(_core.schedule(title, None, None, {}, text_of_costs, csv), text_of_costs)

    def __repr__(self) -> str:
        options = "".join(f", {key}={value!r}" for key, value in self.options.items())
        return f"<panpipe.OwnFamily: {self.name}{options}>"


def _with_options_of(base: OwnFamily, options: dict[str, Any]) -> OwnFamily:
    return base.with_options(**options)


def _input_error(title: str, fault: Fault) -> InputError:
    """At the innermost of the user's lines."""
    message = f"{title}: {fault.message}"
    lines = [message, *(place_text(*place) for place in fault.places), *([f"  help: {fault.remedy}"] if fault.remedy else [])]
    text = "\n".join(lines)
    file, line, _ = fault.places[-1] if fault.places else ("", 0, "")
    return InputError(text, [Diagnostic(message, remedy=fault.remedy, file=file, line=line, text=text)])


def decorated(function: Callable[..., Any] | None, given: dict[str, Any]) -> Any:
    """What `panpipe.schedule` does as a decorator, with or without options."""
    if isinstance(function, OwnFamily):
        if "ranks" in given or "microbatches" in given:
            return function(**given)
        raise InputError(
            f"{function.name} is a family already",
            remedy="call it with its sizes, or give it other defaults by with_options(...)",
        )
    if function is not None:
        return decorated(None, given)(function)
    for key in ("ranks", "microbatches", "costs"):
        if key in given:
            raise InputError(
                f'{key} is of a call, which names its schedule first: panpipe.schedule("1f1b", ranks=4, microbatches=8)'
            )
    own = {key: given.pop(key) for key in ("name", "placement", "deadline_s", "memory_bytes") if key in given}

    def family_of(function: Callable[..., Any]) -> OwnFamily:
        return decorated(function, given) if isinstance(function, OwnFamily) else OwnFamily(function, **own, options=given)

    return family_of
