"""A certificate for small orders: OR-Tools' CP-SAT proves how short a step can be, apart from Panpipe's own bound."""

from __future__ import annotations

import importlib
import math
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from panpipe import _core
from panpipe._errors import InputError, MachineError, NoAnswer
from panpipe._inputs import _count, _count_if_given, _fault, _kind, _seconds
from panpipe._schedules import Schedule

_MOST_PASSES = 20_000  # a model of some hundred megabytes; what can be proved is far smaller
_MOST_TICKS = 10**12  # of a step; CP-SAT counts in 64 bits, with room for its sums


@dataclass(frozen=True, slots=True)
class Certificate:
    """What CP-SAT knows of the shortest step; times in the unit of the costs.

    bound: Proved: no order of the placement that holds no more is shorter, with backwards split or not.
    makespan: Of `order`.
    optimal: Whether the two meet.
    memory: Activations (of one stage and one microbatch) that a rank may hold.
    seconds: What the search took.
    order: The shortest that was found; None where the time was too short for any.
    """

    bound: float
    makespan: float | None
    optimal: bool
    memory: int
    seconds: float
    order: Schedule | None

    def __str__(self) -> str:
        if self.makespan is None:
            return f"at least {self.bound:.6g}; no order found in {self.seconds:.1f} s"
        if self.optimal:
            return f"{self.makespan:.6g} is the shortest, proved in {self.seconds:.1f} s"
        return f"between {self.bound:.6g} and {self.makespan:.6g} after {self.seconds:.1f} s"


class _Pass(NamedTuple):
    kind: str
    stage: int
    microbatch: int


@dataclass(frozen=True)
class _Problem:
    """The placement of an order, with costs in whole ticks."""

    home: list[int]  # rank of each stage, in the order of the chain
    microbatches: int
    memory: int
    length: dict[str, list[int]]  # of F, I and W, by stage
    comm: int
    tick: Fraction  # in the unit of the costs
    recompute: bool  # an activation may be made again, by a pass R as long as F

    def passes(self) -> list[_Pass]:
        return [_Pass(kind, stage, m) for kind in "FIW" for stage in range(len(self.home)) for m in range(self.microbatches)]

    def ticks(self, done: _Pass) -> int:
        return self.length["F" if done.kind == "R" else done.kind][done.stage]

    def inputs(self, done: _Pass) -> Iterator[tuple[_Pass, int]]:
        """What must end before, and the delay until it is there.

        Microbatches are alike: the k-th pass of a kind on a stage may be called microbatch k. So every order becomes one in which
        stages take microbatches in turn, with the same times and as many activations alive. Where some are made again they
        differ: only the first forwards are then in turn.
        """
        kind, stage, microbatch = done
        if microbatch > 0 and (not self.recompute or (kind == "F" and stage == 0)):
            yield _Pass(kind, stage, microbatch - 1), 0
        last = len(self.home) - 1
        if kind == "F" and stage > 0:
            yield _Pass("F", stage - 1, microbatch), self._hop(stage - 1, stage)
        elif kind == "I":
            yield (
                (_Pass("F", stage, microbatch), 0)
                if stage == last
                else (_Pass("I", stage + 1, microbatch), self._hop(stage, stage + 1))
            )
        elif kind == "W":
            yield _Pass("I", stage, microbatch), 0

    def _hop(self, stage: int, other: int) -> int:
        return self.comm if self.home[stage] != self.home[other] else 0


def _cp_model() -> Any:
    try:
        return importlib.import_module("ortools.sat.python.cp_model")  # optional: a type checker may not find it
    except ImportError as error:
        raise MachineError(
            f"a certificate needs OR-Tools, which does not load here: {error}\n  help: pip install ortools"
        ) from None


def _exact_costs(text: str, stages: int) -> dict[str, list[Fraction]]:
    """As the decimal numbers that were given, for each stage."""
    given = {"F": "1", "I": "1", "W": "1", "comm": "0", **dict(part.split("=") for part in text.split(",") if part)}
    exact = {}
    for name in ("F", "I", "W", "comm"):
        values = [Fraction(value.strip()) for value in given[name].split("/")]
        exact[name] = values * stages if len(values) == 1 else values
    if any(value <= 0 for name in "FIW" for value in exact[name]):
        raise InputError(
            "a certificate needs costs above 0 for F, I and W", remedy="a small number, such as 0.001, in place of 0"
        )
    whole = [sum(pair) for pair in zip(exact["I"], exact["W"])]
    if "B" in given and any(Fraction(given["B"]) != cost for cost in whole):
        raise InputError(
            "a certificate is about orders whose backward takes as long as I and W together", remedy="leave B out of the costs"
        )
    return exact


def _problem_of(schedule: Schedule, memory: int | None, recompute: bool | None) -> _Problem:
    if not isinstance(schedule, Schedule):
        remedy = "call it with its sizes first" if callable(schedule) else 'panpipe.schedule("1f1b", ranks=2, microbatches=4)'
        raise _fault("schedule", f"a Schedule is wanted, not a {_kind(schedule)}", remedy)
    if not schedule.legal:
        raise NoAnswer(f"{schedule.name} is not legal: {schedule.problems[0].message}")
    document = schedule.to_dict()
    stages = schedule.stages
    if document["chains"] != [list(range(stages))] or document.get("sequence_splits", 1) > 1:
        raise InputError(
            f"a certificate is about one chain of whole microbatches; {schedule.name} has two chains, or slices of sequences"
        )
    if re.search(r"OFFLOAD|RELOAD", schedule.to_csv()):
        raise InputError(f"a certificate is about orders whose activations stay on the device; {schedule.name} offloads")
    if 3 * stages * schedule.microbatches > _MOST_PASSES:
        raise InputError(f"{3 * stages * schedule.microbatches} passes are too many for a certificate: at most {_MOST_PASSES}")
    home = document["stage_to_rank"]
    recompute = bool(re.search(r"\dR\d", schedule.to_csv())) if recompute is None else recompute
    least = 1 if recompute else max(home.count(rank) for rank in home)
    memory = max(schedule.peak_activations) if memory is None else memory
    if memory < least:
        raise InputError(
            f"a rank holds an activation of each of its {least} stages before the first gradient: memory is at least {least}, not {memory}"
            if least > 1
            else f"memory is at least 1, not {memory}"
        )
    costs = _exact_costs(schedule._costs, stages)
    every = [value for values in costs.values() for value in values]
    unit = math.lcm(*(value.denominator for value in every))
    whole = {name: [int(value * unit) for value in values] for name, values in costs.items()}
    common = math.gcd(*(value for values in whole.values() for value in values))
    whole = {name: [value // common for value in values] for name, values in whole.items()}
    problem = _Problem(home, schedule.microbatches, memory, whole, whole["comm"][0], Fraction(common, unit), recompute)
    if _longest(problem) > _MOST_TICKS:
        raise InputError("the costs have too many digits for a certificate", remedy="round them to six digits")
    return problem


def _longest(problem: _Problem) -> int:
    """Of any order that makes sense: one pass after the other, and every hand-over waited for."""
    again = sum(problem.ticks(done) for done in problem.passes() if problem.recompute and done.kind == "F")
    return again + sum(problem.ticks(done) + problem.comm for done in problem.passes())


def _starts_of(schedule: Schedule, problem: _Problem) -> dict[_Pass, int]:
    """Of the order's passes, full backwards as I and W, microbatches renamed into turns: all, or those of the first forwards."""
    starts: dict[tuple[str, int], list[tuple[float, int]]] = {}
    rows = schedule.timeline.to_pydict()
    for action, stage, microbatch, start in zip(rows["action"], rows["stage"], rows["microbatch"], rows["start"]):
        kind = action.lstrip("0123456789")[:1]
        if kind == "R":
            continue
        for each in "IW" if kind == "B" else kind:
            later = problem.length["I"][stage] * float(problem.tick) if kind == "B" and each == "W" else 0
            starts.setdefault((each, stage), []).append((start + later, microbatch))
    turn = {microbatch: at for at, (_, microbatch) in enumerate(sorted(starts["F", 0]))}
    result = {}
    for (kind, stage), each in starts.items():
        for at, (start, microbatch) in enumerate(sorted(each)):
            named = turn[microbatch] if problem.recompute else at
            result[_Pass(kind, stage, named)] = round(start / float(problem.tick))
    return result


class _Model:
    def __init__(self, cp_model: Any, problem: _Problem, horizon: int):
        self.model = cp_model.CpModel()
        self.problem = problem
        passes = problem.passes()
        self.start = {done: self.model.new_int_var(0, horizon, "") for done in passes}
        self.again: dict[_Pass, tuple[Any, Any]] = {}  # by forward: whether it is made again, and when
        self.makespan = self.model.new_int_var(0, horizon, "")
        for done in passes:
            for before, delay in problem.inputs(done):
                self.model.add(self.start[done] >= self.start[before] + problem.ticks(before) + delay)
            if done.kind == "W" and (problem.recompute or done.microbatch == problem.microbatches - 1):
                self.model.add(self.makespan >= self._end(done))
        for rank in sorted(set(problem.home)):
            self._add_rank(rank, horizon)
        self.model.minimize(self.makespan)

    def _end(self, done: _Pass) -> Any:
        return self.start[done] + self.problem.ticks(done)

    def _add_rank(self, rank: int, horizon: int) -> None:
        mine = [done for done in self.start if self.problem.home[done.stage] == rank]
        passes = [self.model.new_fixed_size_interval_var(self.start[done], self.problem.ticks(done), "") for done in mine]
        lives = []  # an activation is alive from the start of F to the end of W, unless it is made again in between
        for forward in (done for done in mine if done.kind == "F"):
            size = self.model.new_int_var(1, horizon, "")
            if not self.problem.recompute:
                lives.append(self.model.new_interval_var(self.start[forward], size, self._end(forward._replace(kind="W")), ""))
                continue
            again, passed, kept = self._add_recompute(forward, horizon)
            passes.append(passed)
            lives.append(kept)
            lives.append(self.model.new_fixed_size_interval_var(self.start[forward], self.problem.ticks(forward), ""))
            lives.append(
                self.model.new_optional_interval_var(
                    self.again[forward][1], size, self._end(forward._replace(kind="W")), again, ""
                )
            )
        self.model.add_no_overlap(passes)
        self.model.add_cumulative(lives, [1] * len(lives), self.problem.memory)

    def _add_recompute(self, forward: _Pass, horizon: int) -> tuple[Any, Any, Any]:
        """Whether it is made again, the interval of that pass, and the life from the end of F where it is not."""
        again, start = self.model.new_bool_var(""), self.model.new_int_var(0, horizon, "")
        self.again[forward] = again, start
        ticks, gradient = self.problem.ticks(forward), self.start[forward._replace(kind="I")]
        self.model.add(start >= self._end(forward)).only_enforce_if(again)
        self.model.add(start + ticks <= gradient).only_enforce_if(again)
        size = self.model.new_int_var(0, horizon, "")
        end = self._end(forward._replace(kind="W"))
        return (
            again,
            self.model.new_optional_fixed_size_interval_var(start, ticks, again, ""),
            self.model.new_optional_interval_var(self._end(forward), size, end, ~again, ""),
        )

    def hint(self, starts: dict[_Pass, int]) -> None:
        for done, start in starts.items():
            self.model.add_hint(self.start[done], start)


def _order_of(problem: _Problem, starts: dict[_Pass, int], name: str, costs: str) -> Schedule:
    rows: dict[int, list[tuple[int, str]]] = {}
    for done, start in starts.items():
        rows.setdefault(problem.home[done.stage], []).append((start, f"{done.stage}{done.kind}{done.microbatch}"))
    csv = "\n".join(",".join(text for _, text in sorted(rows[rank])) for rank in sorted(rows)) + "\n"
    return Schedule(_core.schedule(name, None, None, {}, costs, csv), costs)


def _solved(solver: Any, model: Any) -> Any:
    """Solves in another thread, so that Ctrl-C reaches this one. CP-SAT's own handler would swallow it, and stay behind."""
    solver.parameters.catch_sigint_signal = False
    with ThreadPoolExecutor(1) as worker:
        answer = worker.submit(solver.solve, model)
        try:
            return answer.result()
        except BaseException:
            solver.stop_search()
            raise


def certify(
    schedule: Schedule, *, memory: int | None = None, recompute: bool | None = None, seconds: float = 60.0, threads: int = 1
) -> Certificate:
    """Prove how short a step can be, and look for a shorter order, with OR-Tools' CP-SAT.

    All orders of the schedule's placement under its costs compete, backwards split into I and W, within a memory. The proof stands
    on nothing of Panpipe's bounds. It closes for some dozens of passes; beyond, the answer is a weak bound.

    schedule: One chain of stages, such as ``panpipe.schedule("v-half", ranks=2, microbatches=4, costs={"F": 10, "I": 12, "W":
        8})``. The search starts from its order.
    memory: Activations (of one stage and one microbatch) that a rank may hold; what the order holds where it is not given.
    recompute: Whether an activation may be made again in front of its backward; as the order does where it is not given.
    seconds: For the search.
    threads: Workers of CP-SAT. One worker gives the same answer again where the time suffices.
    Raises InputError: Two chains, slices of sequences, offload, too many passes, costs that are 0 or have too many
        digits, memory that no order fits into.
    Raises NoAnswer: The schedule is not legal.
    Raises MachineError: There is no OR-Tools here: ``pip install ortools``.

    >>> print(panpipe.certify(panpipe.schedule("zb-h1", ranks=2, microbatches=3)))  # doctest: +SKIP
    10 is the shortest, proved in 0.0 s
    """
    memory, seconds, threads = _count_if_given("memory", memory), _seconds("seconds", seconds), _count("threads", threads)
    problem = _problem_of(schedule, memory, recompute)
    cp_model = _cp_model()
    fits = max(schedule.peak_activations) <= problem.memory
    starts = _starts_of(schedule, problem) if fits else {}
    known = max(starts[done] + problem.ticks(done) for done in starts) if fits else _longest(problem)
    model = _Model(cp_model, problem, known)
    model.hint(starts)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = threads
    began = time.monotonic()
    status = _solved(solver, model.model)
    took = time.monotonic() - began
    unit = problem.tick
    bound = float(max(0, math.ceil(solver.best_objective_bound - 1e-6)) * unit)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Certificate(bound, None, False, problem.memory, took, None)
    found = {done: solver.value(start) for done, start in model.start.items()}
    found |= {done._replace(kind="R"): solver.value(at) for done, (made, at) in model.again.items() if solver.value(made)}
    order = _order_of(problem, found, f"{schedule.name} certified", schedule._costs)
    return Certificate(
        bound, float(round(solver.objective_value) * unit), status == cp_model.OPTIMAL, problem.memory, took, order
    )
