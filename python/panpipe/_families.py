"""Families of schedules of one's own: `panpipe.schedule` as a decorator."""

from __future__ import annotations

import difflib
import functools
import inspect
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Union

from panpipe import _core
from panpipe._child import Fault, place_in, place_text, run_apart
from panpipe._errors import Diagnostic, InputError
from panpipe._inputs import _costs, _number, _text
from panpipe._schedules import Schedule
from panpipe.actions import Action

Placement = Union[str, Callable[[int, int], int]]
Costs = Union[Mapping[str, Any], str]

DEADLINE_S = 10.0
MEMORY_BYTES = 1 << 30
_SIZES = ("rank", "ranks", "microbatches", "stages", "costs")  # parameters that are filled in; the others are options
# Of a stage and a microbatch (a slice of one): F, R, I, W; a send and a receive of each direction; what is parked before I and again
# behind it; gathers and reductions around the passes, which have no microbatch.
_MOST_EACH, _MOST_BESIDES = 16, 16
_PASSES = ("F", "I", "W", "B", "R", "SEND_F", "RECV_F", "SEND_B", "RECV_B")  # once for a stage and a microbatch


@dataclass(frozen=True)
class _Shape:
    """What the sizes of a call make of a family."""

    ranks: int
    microbatches: int
    stages_per_rank: int
    splits: int
    place: list[int]  # rank of each stage

    def stages_of(self, rank: int) -> list[int]:
        return [stage for stage, at in enumerate(self.place) if at == rank]

    def header(self) -> str:
        sizes = f"ranks={self.ranks} microbatches={self.microbatches} stages={len(self.place)} seq_splits={self.splits}"
        return f"#pipeline {sizes}\n#place {','.join(map(str, self.place))}\n"


def _whole_number(what: str, value: Any, least: int = 1) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or operator.index(value) < least:
        raise InputError(f"{what} is a whole number from {least}, not {value!r}")
    return operator.index(value)


def _index(value: Any) -> int | None:
    """A whole number, also NumPy's; None for anything else."""
    return None if isinstance(value, bool) or not hasattr(value, "__index__") else operator.index(value)


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

    def add(self, given: Any) -> None:
        text = self._text_of(given)
        try:
            actions = _core.actions_of_cell(text)
        except InputError as error:
            fault = error.diagnostics[0]
            raise Fault(f"rank {self._rank} yields {text!r}: {fault.message}", fault.remedy) from None
        for action in actions:
            self._check(action, text)
        self.cells.append(text)
        if len(self.cells) > self._most:
            raise Fault(
                f"rank {self._rank} yields more than {self._most} actions: {_MOST_EACH} for each of its "
                f"{len(self._stages)} x {self._shape.microbatches * self._shape.splits} stages and microbatches, and {_MOST_BESIDES} besides, are more than any order has"
            )

    def _text_of(self, given: Any) -> str:
        if isinstance(given, str):
            return given
        if not isinstance(given, Action):
            raise Fault(
                f"rank {self._rank} yields {given!r}, which is no action",
                "yield F(0), or a cell of the CSV as text, such as '2F0'; from panpipe.actions import F, I, W, B, R",
            )
        stage = given.stage
        if stage is None:
            if len(self._stages) != 1:
                raise Fault(
                    f"rank {self._rank} yields {given!r} and has the stages {self._stages}",
                    f"say which: {given.kind}({given.microbatch}, stage={(self._stages or [0])[-1]})",
                )
            stage = self._stages[0]
        microbatch = self._number_of(given, "microbatch", given.microbatch)
        part = None if given.part is None else self._number_of(given, "part", given.part)
        whole = part is None or part == 0 and self._shape.splits == 1
        return f"{self._number_of(given, 'stage', stage)}{given.kind}{microbatch}" + ("" if whole else f".{part}")

    def _number_of(self, given: Action, what: str, value: Any) -> int:
        number = value if type(value) is int else _index(value)
        if number is None:
            raise Fault(f"rank {self._rank} yields {given!r}: the {what} is a whole number, not {value!r}")
        return number

    def _check(self, action: tuple[int, str, int, int], text: str) -> None:
        stage, kind, microbatch, split = action
        stages = len(self._shape.place)
        for what, value, size in (
            ("stage", stage, stages),
            ("microbatch", microbatch, self._shape.microbatches),
            ("slice", split, self._shape.splits),
        ):
            if value >= size:
                raise Fault(f"rank {self._rank} yields {text}: {what} {value} of {size}: they are numbered from 0")
        if stage >= 0 and self._shape.place[stage] != self._rank:
            raise Fault(
                f"rank {self._rank} yields {text}: stage {stage} is on rank {self._shape.place[stage]}, and this rank has {self._stages}",
                "the parameter `stages` of the function lists the stages of its rank; placement= says where stages are",
            )
        if kind not in _PASSES:
            return
        first = self._seen.setdefault((stage, kind, microbatch, split), len(self.cells))
        if first != len(self.cells):
            raise Fault(
                f"rank {self._rank} yields {text} twice, as action {first} and as action {len(self.cells)}",
                "every stage runs every pass of a microbatch once",
            )
        self._check_halves(action, text)

    def _check_halves(self, action: tuple[int, str, int, int], text: str) -> None:
        stage, kind, microbatch, split = action
        for other in {"B": ("I", "W"), "I": ("B",), "W": ("B",)}.get(kind, ()):
            if (stage, other, microbatch, split) in self._seen:
                raise Fault(
                    f"rank {self._rank} yields {text} behind the {other} of the same microbatch",
                    "B is the whole backward, I and W are its halves: yield the one or the two",
                )


def _iterator(made: Any, name: str) -> Iterator[Any]:
    if not isinstance(made, Iterable) or isinstance(made, (str, bytes)):
        raise Fault(f"returns {made!r}", f"{name} yields its actions: yield F(0)")
    return iter(made)


def _take(made: Any, name: str, take: Callable[[Any], None]) -> None:
    """Each thing that it yields; a fault stands where the generator does."""
    iterator = _iterator(made, name)
    for given in iterator:
        try:
            take(given)
        except Fault as fault:
            raise fault.at(place_in(iterator)) from None


def _rows(
    function: Callable[..., Any], name: str, arguments: dict[str, Any], wanted: frozenset[str], shape: _Shape
) -> list[list[str]]:
    rows = [_Row(rank, shape) for rank in range(shape.ranks)]
    given = {
        "ranks": shape.ranks,
        "microbatches": shape.microbatches,
        "stages": [shape.stages_of(rank) for rank in range(shape.ranks)],
    }
    given = {key: value for key, value in given.items() if key in wanted} | arguments
    if "rank" in wanted:
        for rank, row in enumerate(rows):
            if "stages" in wanted:
                given["stages"] = shape.stages_of(rank)
            _take(function(rank=rank, **given), name, row.add)
    else:

        def take(pair: Any) -> None:
            rank = _index(pair[0]) if isinstance(pair, (tuple, list)) and len(pair) == 2 else None
            if rank is None or not 0 <= rank < shape.ranks:
                raise Fault(
                    f"yields {pair!r} in place of a rank and its action",
                    f"yield rank, F(0), with ranks from 0 to {shape.ranks - 1}; or take a parameter `rank`, and yield that rank's actions",
                )
            rows[rank].add(pair[1])

        _take(function(**given), name, take)
    for rank, row in enumerate(rows):
        if not row.cells:
            raise Fault(f"rank {rank} yields nothing", "every rank has a stage, and every stage its passes")
    return [row.cells for row in rows]


def _placed(placement: Placement, ranks: int, stages: int) -> list[int]:
    if callable(placement):
        place = []
        for stage in range(stages):
            given = placement(stage, ranks)
            rank = _index(given)
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


def costs_as_dict(costs: Costs) -> dict[str, Any]:
    """All of F, I, W, B, comm, with the defaults of `schedule`; a list where stages differ."""
    if isinstance(costs, str):
        pairs = [item.partition("=") for item in costs.split(",") if item]
        costs = {key: [float(part) for part in value.split("/")] if "/" in value else float(value) for key, _, value in pairs}
    full: dict[str, Any] = {"F": 1.0, "I": 1.0, "W": 1.0, "comm": 0.0} | dict(costs)
    if "B" not in full and not isinstance(full["I"], (list, tuple)) and not isinstance(full["W"], (list, tuple)):
        full["B"] = full["I"] + full["W"]
    return full


def _text_of_costs(costs: Costs) -> str:
    text = _costs(costs)
    if text:
        _core.check_costs(text)
    return text


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
        for parameter in parameters.values():
            if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD and parameter.kind is not parameter.KEYWORD_ONLY:
                raise InputError(
                    f"{self.name}: the parameter {parameter.name!r} has no name to give it by: options are parameters with defaults"
                )
            if (
                parameter.name not in _SIZES
                and parameter.default is parameter.empty
                and parameter.name not in ("stages_per_rank", "sequence_splits")
            ):
                raise InputError(
                    f"{self.name}: the parameter {parameter.name!r} has no default",
                    remedy=f"{', '.join(_SIZES)} are filled in; any other is an option of the family: {parameter.name}=1",
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
        self.options: dict[str, Any] = {"stages_per_rank": 1, "sequence_splits": 1} | own
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
        seconds = _number(f"{self.name}: deadline_s", deadline_s)
        if seconds <= 0:
            raise InputError(f"{self.name}: deadline_s is a time above 0, not {seconds:g}")
        size = _whole_number(f"{self.name}: memory_bytes", memory_bytes)
        if size >= 1 << 62:
            raise InputError(f"{self.name}: memory_bytes is below 2**62, not {size}")
        return seconds, size

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
        text_of_costs = _text_of_costs(costs)
        sizes = (_whole_number(f"{self.name}: ranks", ranks), _whole_number(f"{self.name}: microbatches", microbatches))
        per_rank, splits = (
            _whole_number(f"{self.name}: {key}", all_options[key]) for key in ("stages_per_rank", "sequence_splits")
        )
        if sizes[0] * sizes[1] * per_rank * splits > _core.most_actions:
            raise InputError(
                f"{self.name}: {sizes[0]} ranks x {per_rank} stages x {sizes[1]} microbatches are more than {_core.most_actions:g} forwards"
            )
        arguments = {key: value for key, value in all_options.items() if key in self._wanted}
        if self.takes_costs():
            arguments["costs"] = costs_as_dict(text_of_costs)

        def work() -> tuple[list[int], list[list[str]]]:
            place = _placed(self._placement, sizes[0], sizes[0] * per_rank)
            shape = _Shape(*sizes, per_rank, splits, place)
            return place, _rows(self._function, self.name, arguments, self._wanted, shape)

        title = self.title(all_options)
        limits = self._limits(
            self._deadline_s if deadline_s is None else deadline_s, self._memory_bytes if memory_bytes is None else memory_bytes
        )
        try:
            place, rows = run_apart(work, *limits)
        except Fault as fault:
            raise _input_error(f"{title} of {sizes[0]} ranks and {sizes[1]} microbatches", fault) from None
        csv = _Shape(*sizes, per_rank, splits, place).header() + "".join(",".join(row) + "\n" for row in rows)
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
