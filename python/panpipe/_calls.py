"""The functions of the package: what the verbs of the command line do, by the same functions below."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any, overload

from panpipe import _core, _families, _orders, _work
from panpipe._documents import ImportedJob, import_job
from panpipe._errors import InputError
from panpipe._families import OwnFamily
from panpipe._inputs import (
    File,
    Scenario,
    Settings,
    _costs,
    _count,
    _count_if_given,
    _counts,
    _evidence,
    _fault,
    _named,
    _overrides,
    _path,
    _seconds,
    _source,
    _text,
    _texts,
    _truth,
    _value,
)
from panpipe._orders import asked as _asked
from panpipe._results import Candidate, Checked, Largest, Plan, Prediction, Sizes, Sweep
from panpipe._schedules import Family, Schedule


def check(scenario: Scenario, *, set: Settings = None, plan: File | None = None) -> Checked:
    """Read a scenario and plan it, without predicting.

    scenario: A file, the name of a shipped one ("examples/gpt3-175b-a100x64.yaml"), or a dict with the keys of such a file.
    set: Keys that take the place of the scenario's: ``{"parallel.tensor": 4}``.
    plan: A plan file: partition, placement and schedule are taken from it.
    Returns Checked: Every value with its origin.
    Raises InputError: With every fault that was found: file, line, column, key, remedy.
    Raises NoAnswer: The schedule cannot finish.
    """
    return Checked(**_core.check(*_asked(scenario, set), _path("plan", plan)))


def estimate(scenario: Scenario, *, set: Settings = None, plan: File | None = None, evidence: Sequence[File] = ()) -> Prediction:
    """Predict a training step as if links were never shared; a millisecond for a scenario that was asked before.

    scenario, set, plan: As of `check`. What was read and planned is kept for the next call while the files hold the same bytes.
    evidence: Files of measurements of this machine and trainer, in addition to those that the scenario names: logs, tables of
        runs. They narrow the interval; `metrics["step_time_p50_s"]` is the corrected step.
    Returns Prediction: Times in seconds, memory in bytes.
    Raises InputError, NoAnswer: As of `check`.

    >>> step = panpipe.estimate("examples/gpt2-large-rtx3090x8.yaml", set={"batch.micro": 1})
    >>> f"{step.step_time_s:.3f} s"
    '0.393 s'
    """
    return Prediction(_core.estimate(*_asked(scenario, set, evidence=evidence), _path("plan", plan)))


def simulate(
    scenario: Scenario,
    *,
    set: Settings = None,
    plan: File | None = None,
    backend: str = "simgrid",
    merge: bool = True,
    fold: bool = True,
    evidence: Sequence[File] = (),
) -> Prediction:
    """Predict a training step on the topology, where transfers share links.

    scenario, set, plan: As of `check`.
    backend: {"simgrid", "flow"}; SimGrid, or Panpipe's own max-min solver.
    merge: Let a pass run as one activity where nothing shares its links.
    fold: Simulate devices that do the same as one.
    evidence: As of `estimate`.
    Raises InputError, NoAnswer: As of `check`.
    Raises MachineError: There is no SimGrid here.
    """
    return Prediction(
        _core.simulate(
            *_asked(scenario, set, evidence=evidence),
            _path("plan", plan),
            _text("backend", backend),
            _truth("merge", merge),
            _truth("fold", fold),
        )
    )


def plan(
    scenario: Scenario,
    *,
    set: Settings = None,
    method: str = "auto",
    objective: str = "",
    trainer: str = "",
    threads: int | None = None,
    time_limit: float | None = None,
    candidates: int = 5,
    open: bool = False,
    gpus: Sequence[int] | None = None,
    nodes: Sequence[int] | None = None,
    tokens: str | int = "",
    deadline: str = "",
    budget: str = "",
    executor: Executor | None = None,
    cluster: File | None = None,
    model: File | None = None,
    sequence: int | None = None,
    micro: int | None = None,
    vocabulary: int | None = None,
    define: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
    evidence: Sequence[File] = (),
) -> Plan | Sizes:
    """Search the best cuts, schedule and degrees.

    scenario, set: As of `check`; what the scenario states stays, what is absent or "auto" is searched. With `trainer` also the path
        of that trainer's job, as `import_job` reads it: it is open, and `.job` of the answer holds its scenario for `export`.
    method: {"auto", "pfeife", "piper"}; as of the command.
    objective: {"", "step", "cost", "energy", "time_per_sample"}; "cost" and "energy" compare sizes of the cluster;
        "time_per_sample" is of the method piper.
    trainer: A name of `shipped("trainers")`; only what it can run, at what it costs there, so that `export` can write the plan
        for it; `--for` of the command. "": as the scenario states.
    threads: Threads of one search; all cores unless given.
    time_limit: Seconds, after which the best so far is the answer; Ctrl-C ends a search without one.
    candidates: How many of the best plans to return.
    open: Also search what the scenario states of a plan (degrees, microbatch, schedule, recompute, cuts, placement); the samples of
        a step and what `set` states stay. `--open` of the command.
    gpus, nodes: Plan for clusters of so many GPUs, or nodes, each: the answer is a Sizes.
    tokens: Of the whole run, as the key run.tokens: "300B".
    deadline, budget: How many GPUs train the whole run in so long ("7d"), or for so much ("50000USD"): the answer is a Sizes.
    executor: With `gpus` or `nodes` alone: searches the sizes in parallel, one thread each. Processes, Dask, Ray and
        mpi4py.futures have such executors.
    evidence: As of `estimate`. It corrects times; the order of plans hardly changes by it.
    cluster, model, sequence, micro, vocabulary, define, arguments: Of a job, as of `import_job`; its `gpus` is one number.
    Raises InputError: As of `check`; also a number of GPUs that the cluster's nodes do not divide, and a deadline without the
        tokens of the run.
    """
    of_job = {
        "cluster": cluster,
        "model": model,
        "sequence": sequence,
        "micro": micro,
        "vocabulary": vocabulary,
        "define": define,
        "arguments": arguments,
    }
    job = _job(scenario, trainer, gpus, of_job)
    if job is not None:
        scenario, open, gpus = job.scenario, True, None
    source, overrides = _asked(scenario, set, stated=True, evidence=evidence)
    if tokens != "":
        overrides.append(f"run.tokens={_value(tokens)}")
    of_sizes = bool(deadline or budget or objective in ("cost", "energy"))
    listed = gpus is not None or nodes is not None
    if executor is not None and (of_sizes or not listed):
        raise InputError(
            "an executor takes the searches of several sizes, and a search on one cluster is one piece of work: give gpus=, or threads="
        )
    limit = 0.0 if time_limit is None else _seconds("time_limit", time_limit)
    request = (
        _text("method", method),
        _text("objective", objective),
        _text("trainer", trainer),
        _count("threads", threads, 0),
        _count("candidates", candidates),
        bool(open),
    )
    if of_sizes:
        words = (_counts("gpus", gpus), _counts("nodes", nodes), "", _text("deadline", deadline), _text("budget", budget), limit)
        key, text, best, found = _core.plan_sizes(source, overrides, _core.plan_request(*request), *words)
        plans = {count: _plan_of(answer) if answer[0] else _no_plan(reason) for count, answer, reason in found}
        return Sizes(key, plans, best or None, json.loads(text), job)
    if not listed:
        return replace(_plan_of(_core.plan(source, overrides, _core.plan_request(*request), limit)), job=job)
    key, wanted = _core.sizes(source, overrides, _counts("gpus", gpus), _counts("nodes", nodes))
    if executor is not None:
        request = (*request[:3], 1, *request[4:])
    calls = [(source, [*overrides, setting], request, limit) for _, setting in wanted]
    answers = _work.spread(executor, 1, _work.plan, calls)
    return Sizes(key, {count: _plan_of(answer) for (count, _), answer in zip(wanted, answers)}, job=job)


def _job(scenario: Scenario, trainer: str, gpus: Sequence[int] | None, words: dict[str, Any]) -> ImportedJob | None:
    """The job that stands for a scenario."""
    if isinstance(scenario, (Mapping, ImportedJob)) or not _core.is_job(_path("scenario", scenario), _text("trainer", trainer)):
        given = next((name for name, value in words.items() if value), None)
        if given is None:
            return None
        raise _fault(
            given,
            "this is an argument of a trainer's job, and this is read as a scenario",
            "name the job's trainer with trainer=, or change a scenario with set=",
        )
    counts = _counts("gpus", gpus)
    if len(counts) > 1:
        raise _fault("gpus", "of a job it is one number, the GPUs that the job has", "to compare sizes, call import_job first")
    return import_job(trainer, scenario, gpus=counts[0] if counts else None, **words)


def _no_plan(reason: str) -> Plan:
    return Plan([], "", False, reason, {"candidates": [], "reason": reason})


def _plan_of(answer: tuple[str, str]) -> Plan:
    document = json.loads(answer[0])
    found = [_candidate_of(one) for one in document.get("candidates") or []]
    yours = _candidate_of(document["yours"]) if "yours" in document else None
    search = document.get("search") or {}
    return Plan(found, answer[1], bool(search.get("proved_optimal")), document.get("reason") or "", document, yours)


def _candidate_of(one: dict[str, Any]) -> Candidate:
    parts = (one.get("simulated") or {}, one.get("settings") or {})
    return Candidate(one["summary"], one["metrics"], *parts, one.get("gain_over_yours"), bool(one.get("tie_with_yours")))


def largest(
    scenario: Scenario,
    of: str,
    *,
    set: Settings = None,
    plan: File | None = None,
    devices: Sequence[str] = (),
    search: bool = False,
    open: bool = False,
    trainer: str = "",
    threads: int | None = None,
    time_limit: float | None = None,
) -> Largest:
    """Find the largest microbatch, or the longest sequence, that fits.

    scenario, set, plan: As of `check`. Schedule and cuts are made for each value as `estimate` makes them; the microbatches of a
        step stay, so that its samples grow with the microbatch.
    of: {"micro", "sequence"}; what is to be as large as possible.
    devices: Names of `shipped("devices")`, or files: the answer on each of them in place of the cluster's.
    search: The best plan of each value in place of the scenario's own; the samples of a step stay where the scenario states them.
    open, trainer, threads, time_limit: Of that search, as of `plan`.
    Raises InputError: As of `check`; also for measured costs, which hold for the sizes of their measurement.

    >>> panpipe.largest("examples/gpt2-large-rtx3090x8.yaml", "micro").devices[0]["ends_by"]["part"]
    'activations'
    """
    source, overrides = _asked(scenario, set, stated=search)
    names = _texts("devices", devices)
    if search:
        request = _core.plan_request("auto", "", _text("trainer", trainer), _count("threads", threads, 0), 1, bool(open))
        limit = 0.0 if time_limit is None else _seconds("time_limit", time_limit)
        text = _core.plan_largest(source, overrides, request, _text("of", of), names, limit)
    else:
        text = _core.largest(source, overrides, _path("plan", plan), _text("of", of), names)
    document = json.loads(text)
    return Largest(document["devices"][0]["fits"], document["devices"], document)


def sweep(
    scenario: Scenario,
    over: Mapping[str, Sequence[Any]],
    *,
    set: Settings = None,
    engine: str = "estimate",
    plan: str = "",
    threads: int | None = None,
    executor: Executor | None = None,
    progress: Callable[[int, int], Any] | None = None,
    evidence: Sequence[File] = (),
) -> Sweep:
    """Predict a grid over any keys of a scenario.

    scenario, set: As of `check`.
    over: Key to its values: ``{"schedule": ["1f1b", "zb-h1"], "parallel.pipeline": [2, 4]}``; the last one varies fastest.
    engine: {"estimate", "simulate"}; idle or shared links.
    plan: {"", "auto", "pfeife", "piper"}; A method: the best plan is searched for each cell.
    threads: Cells at a time in this process; all cores unless given.
    executor: Does the cells instead. A work item is a cell, and can be pickled; workers need this package, and the files of the
        scenario at the same paths.
    progress: Called with the number of cells done and of all.
    evidence: As of `estimate`, in all cells.
    Returns Sweep: `.table` has a row per cell. A cell that is refused is an answer: its status and reason state why.
    Raises InputError: A key that does not exist, or a scenario that cannot be read whatever the values.
    """
    bare, rest, order = _orders.without_order(scenario, set)
    source, sets = _source(bare), _overrides(rest) + _evidence(evidence)
    axes = _axes(over)
    orders = _orders.SweptOrders(
        [value for values in over.values() for value in values if _orders.is_order(value)] + ([order] if order else [])
    )
    if order:
        sets = [f"{_orders.KEY}={order.name}", *sets]
    grid, _ = _core.sweep_grid(source, sets, axes, _text("engine", engine), _text("plan", plan), orders.for_grid())
    calls = ((source, grid, index, *cell) for index, cell in enumerate(orders.cells(source, sets, axes)))
    lines = _work.spread(executor, _count("threads", threads, 0), _work.cell, calls, progress)
    text, page, table = _core.sweep_texts(grid, lines)
    document = json.loads(text)
    return Sweep(document, document["cells"], page, table)


def _axes(over: Mapping[str, Sequence[Any]]) -> list[tuple[str, list[str]]]:
    if not isinstance(over, Mapping):
        raise _fault("over", f"a dict of keys and their values is wanted, not a {type(over).__name__}")
    axes = []
    for key, values in _named(over, "over"):
        if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
            raise _fault(key, f"over: values stand in a list: {{{key!r}: [{values!r}]}}")
        axes.append((key, [value.name if _orders.is_order(value) else _value(value, key) for value in values]))
        if not axes[-1][1]:
            raise _fault(key, "over: this key has no values to vary over")
    return axes


@overload
def schedule(
    name: File,
    /,
    *,
    ranks: int | None = None,
    microbatches: int | None = None,
    costs: Mapping[str, Any] | str = "",
    **options: Any,
) -> Schedule: ...


@overload
def schedule(function: Callable[..., Iterable[Any]], /) -> OwnFamily: ...


@overload
def schedule(
    *,
    name: str = "",
    placement: _families.Placement = "loop",
    deadline_s: float = _families.DEADLINE_S,
    memory_bytes: int = _families.MEMORY_BYTES,
    **options: Any,
) -> Callable[[Callable[..., Iterable[Any]]], OwnFamily]: ...


def schedule(what: Any = None, /, **given: Any) -> Any:
    """Make, check and evaluate an order of the passes of a step; as a decorator, make a family of a function.

    name: A family (`families` lists them), or a CSV file with an order.
    ranks, microbatches: Its sizes; a file has its own.
    costs: Time of each pass, in any unit: ``{"F": 10, "I": 12, "W": 8, "comm": 1}``; a list gives one number for each stage.
    **options: Of the family: ``stages_per_rank=2``.
    Returns Schedule: Also of an order that is not legal: `.legal` and `.problems` report that.
    Raises InputError: No such family or option, sizes that the family does not have, a file that cannot be read.

    >>> panpipe.schedule("1f1b", ranks=4, microbatches=8).makespan
    33.0

    As a decorator it takes a function that yields the actions of a rank in their order. The parameters rank, ranks, microbatches, stages
    (of the rank, as numbers of the model's) and costs (a dict) are filled in as far as the function has them; all others are options of
    the family, with their defaults. A function without a parameter rank yields pairs of a rank and an action, in any order of the
    ranks.

    >>> from panpipe.actions import B, F
    >>> @panpipe.schedule
    ... def mine(rank, ranks, microbatches):
    ...     yield from (F(m) for m in range(microbatches))
    ...     yield from (B(m) for m in range(microbatches))
    >>> mine(ranks=4, microbatches=8).makespan
    33.0

    With options: ``@panpipe.schedule(name="mine", stages_per_rank=2, placement="wave")``. `placement` is "loop" (stage s on rank s mod
    ranks), "wave" (there and back: with two stages a rank a V) or a function of (stage, ranks) that gives the rank. The function runs
    in a process of its own: `deadline_s` (10) and `memory_bytes` (1 GiB beyond what this process has) stop it.
    """
    if what is None or callable(what):
        return _families.decorated(what, given)
    return _order_named(what, **given)


def _order_named(
    name: File,
    *,
    ranks: int | None = None,
    microbatches: int | None = None,
    costs: Mapping[str, Any] | str = "",
    **options: Any,
) -> Schedule:
    text = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in options.items()}
    given = _costs(costs)
    sizes = (_count_if_given("ranks", ranks), _count_if_given("microbatches", microbatches))
    return Schedule(_core.schedule(_path("name", name), sizes[0], sizes[1], text, given, ""), given)


def families() -> list[Family]:
    """The families of schedules, with their options."""
    return [Family(*parts) for parts in _core.schedule_families()]
