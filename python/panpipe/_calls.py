"""The functions of the package: what the verbs of the command line do, by the same functions below."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, Union, overload

from panpipe import _core, _families, _orders, _work
from panpipe._errors import InputError
from panpipe._families import OwnFamily
from panpipe._results import Candidate, Checked, Family, Fit, FittedNumber, Plan, Prediction, Schedule, Sizes, Sweep, Validation

Scenario = Union[str, "os.PathLike[str]", Mapping[str, Any]]
Settings = Union[Mapping[str, Any], None]
Files = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]


def _source(scenario: Scenario) -> str | dict:
    if type(scenario) is str or type(scenario) is dict:
        return scenario
    if isinstance(scenario, Mapping):
        return dict(scenario)
    try:
        return os.fspath(scenario)
    except TypeError:
        raise TypeError(f"a scenario is a path or a dict, not a {type(scenario).__name__}") from None


def _value(value: Any) -> str:
    """As the command line would have it: text stays text, everything else is YAML in one line."""
    if isinstance(value, str):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):
        value = value.tolist()  # numbers and arrays of NumPy's
    return json.dumps(value, default=str)


def _overrides(settings: Settings) -> list[str]:
    return [f"{key}={_value(value)}" for key, value in settings.items()] if settings else []


def _asked(scenario: Scenario, settings: Settings, stated: bool = False) -> tuple[str | dict, list[str]]:
    source = _source(scenario)
    if (settings and _orders.KEY in settings) or (type(source) is dict and _orders.is_order(source.get(_orders.KEY))):
        return _orders.asked(source, settings, _overrides, stated)
    return source, _overrides(settings)


def _files(files: Files) -> list[str]:
    return [os.fspath(files)] if isinstance(files, (str, os.PathLike)) else [os.fspath(file) for file in files]


def check(scenario: Scenario, *, set: Settings = None, plan: "str | os.PathLike[str]" = "") -> Checked:
    """Read a scenario and plan it, without predicting.

    Parameters
    ----------
    scenario : path or dict
        A file, the name of a shipped one ("examples/gpt3-175b-a100x64.yaml"), or a dict with the keys of such a file.
    set : dict, optional
        Keys that take the place of the scenario's: ``{"parallel.tensor": 4}``.
    plan : path, optional
        A plan file: partition, placement and schedule are taken from it.

    Returns
    -------
    Checked
        Every value with its origin.

    Raises
    ------
    InputError
        With every fault that was found: file, line, column, key, remedy.
    NoAnswer
        The schedule cannot finish.
    """
    return Checked(**_core.check(*_asked(scenario, set), os.fspath(plan)))


def estimate(scenario: Scenario, *, set: Settings = None, plan: "str | os.PathLike[str]" = "") -> Prediction:
    """Predict a training step as if links were never shared; a millisecond for a scenario that was asked before.

    Parameters
    ----------
    scenario, set, plan
        As of `check`. What was read and planned is kept for the next call while the files hold the same bytes.

    Returns
    -------
    Prediction
        Times in seconds, memory in bytes.

    Raises
    ------
    InputError, NoAnswer
        As of `check`.

    Examples
    --------
    >>> step = panpipe.estimate("examples/gpt2-large-rtx3090x8.yaml", set={"batch.micro": 1})
    >>> f"{step.step_time_s:.3f} s"
    '0.393 s'
    """
    return Prediction(_core.estimate(*_asked(scenario, set), os.fspath(plan)))


def simulate(
    scenario: Scenario,
    *,
    set: Settings = None,
    plan: "str | os.PathLike[str]" = "",
    backend: str = "simgrid",
    merge: bool = True,
    fold: bool = True,
) -> Prediction:
    """Predict a training step on the topology, where transfers share links.

    Parameters
    ----------
    scenario, set, plan
        As of `check`.
    backend : {"simgrid", "flow"}
        SimGrid, or Panpipe's own max-min solver.
    merge : bool
        Let a pass run as one activity where nothing shares its links.
    fold : bool
        Simulate devices that do the same as one.

    Returns
    -------
    Prediction

    Raises
    ------
    InputError, NoAnswer
        As of `check`.
    MachineError
        There is no SimGrid here.
    """
    return Prediction(_core.simulate(*_asked(scenario, set), os.fspath(plan), backend, merge, fold))


def plan(
    scenario: Scenario,
    *,
    set: Settings = None,
    method: str = "auto",
    objective: str = "",
    threads: int | None = None,
    candidates: int = 5,
    gpus: Sequence[int] | None = None,
    executor: Executor | None = None,
) -> Plan | Sizes:
    """Search the best cuts, schedule and degrees.

    Parameters
    ----------
    scenario, set
        As of `check`; what the scenario states stays, what is absent or "auto" is searched.
    method : {"auto", "pfeife", "piper"}
        As of the command.
    objective : str
        Of the method piper: "time_per_sample" or "step".
    threads : int, optional
        Threads of one search; all cores unless given.
    candidates : int
        How many of the best plans to return.
    gpus : sequence of int, optional
        Plan for clusters of so many GPUs each: the answer is a Sizes.
    executor : concurrent.futures.Executor, optional
        With `gpus`: searches the sizes beside each other, one thread each. Processes, Dask, Ray and mpi4py.futures have such executors.

    Returns
    -------
    Plan, or Sizes with `gpus`

    Raises
    ------
    InputError
        As of `check`; also a number of GPUs that the cluster's nodes do not divide.
    """
    source, overrides = _asked(scenario, set, stated=True)
    if gpus is None:
        if executor is not None:
            raise InputError("an executor takes the searches of several sizes, and a search on one cluster is one piece of work: give gpus=, or threads=")
        return _plan_of(_core.plan(source, overrides, method, objective, threads or 0, candidates))
    key, devices = _core.size_key(source, overrides)
    for count in gpus:
        if count < devices or count % devices:
            raise InputError(f"gpus: this cluster's nodes have {devices} devices each, and {count} is no multiple of it")
    calls = [(source, [*overrides, f"{key}={count // devices}"], method, objective, 1 if executor else threads or 0, candidates) for count in gpus]
    answers = _work.spread(executor, 1, _work.plan, calls)
    return Sizes(key, {count: _plan_of(answer) for count, answer in zip(gpus, answers)})


def _plan_of(answer: tuple[str, str]) -> Plan:
    document = json.loads(answer[0])
    found = [
        Candidate(one["summary"], one["metrics"], one.get("simulated") or {}, one.get("settings") or {})
        for one in document.get("candidates") or []
    ]
    search = document.get("search") or {}
    return Plan(found, answer[1], bool(search.get("proved_optimal")), document.get("reason") or "", document)


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
) -> Sweep:
    """Predict a grid over any keys of a scenario.

    Parameters
    ----------
    scenario, set
        As of `check`.
    over : dict
        Key to its values: ``{"schedule": ["1f1b", "zb-h1"], "parallel.pipeline": [2, 4]}``; the last one varies fastest.
    engine : {"estimate", "simulate"}
        Idle or shared links.
    plan : {"", "auto", "pfeife", "piper"}
        A method: the best plan is searched for each cell.
    threads : int, optional
        Cells at a time in this process; all cores unless given.
    executor : concurrent.futures.Executor, optional
        Does the cells instead. A work item is a cell, and can be pickled; workers need this package, and the files of the scenario at
        the same paths.
    progress : callable, optional
        Called with the number of cells done and of all.

    Returns
    -------
    Sweep
        `.table` has a row per cell. A cell that is refused is an answer: its status and reason say why.

    Raises
    ------
    InputError
        A key that does not exist, or a scenario that cannot be read whatever the values.
    """
    source, rest, order = _orders.without_order(_source(scenario), set)
    orders = _orders.SweptOrders([value for values in over.values() for value in values if _orders.is_order(value)] + ([order] if order else []))
    axes = [(key, [value.name if _orders.is_order(value) else _value(value) for value in values]) for key, values in over.items()]
    sets = [f"{_orders.KEY}={order.name}", *_overrides(rest)] if order else _overrides(set)
    grid, _ = _core.sweep_grid(source, sets, axes, engine, plan, orders.for_grid())
    calls = ((source, grid, index, *cell) for index, cell in enumerate(orders.cells(source, sets, axes)))
    lines = _work.spread(executor, threads, _work.cell, calls, progress)
    texts = _core.sweep_texts(grid, lines)
    document = json.loads(texts.json)
    return Sweep(document, document["cells"], texts.page, texts.table)


def validate(
    runs: Files,
    *,
    calibrations: Files = (),
    tolerances: Mapping[str, str] | Sequence[str] = (),
    threads: int | None = None,
) -> Validation:
    """Predict measured runs, and say how far predictions can be trusted.

    Parameters
    ----------
    runs : path or list of paths
        Tables of measured runs (CSV).
    calibrations : path or list of paths
        Device calibrations to use instead of the shipped ones.
    tolerances : dict or list of str
        ``{"mean": "5%"}``: `.ok` is False when a figure is worse.
    threads : int, optional
        Rows at a time; all cores unless given.

    Returns
    -------
    Validation

    Raises
    ------
    InputError
        A table that cannot be read, with line and column; a figure that does not exist.
    """
    limits = [f"{figure}={limit}" for figure, limit in tolerances.items()] if isinstance(tolerances, Mapping) else list(tolerances)
    text, page, ok = _core.validate(_files(runs), _files(calibrations), limits, threads or 0)
    document = json.loads(text)
    return Validation(ok, document["rows"], document, page)


def fit(
    runs: Files,
    device: str | Sequence[str],
    *,
    start: "str | os.PathLike[str]" = "",
    only: Sequence[str] = (),
    folds: int = 5,
    iterations: int = 30,
) -> Fit:
    """Fit a device calibration to measured runs by robust least squares.

    Parameters
    ----------
    runs : path or list of paths
        Tables of measured runs (CSV).
    device : str or list of str
        Rows of this gpu are fitted: "A100-80G-SXM".
    start : path, optional
        A calibration to start from; a-priori values unless given.
    only : list of str
        Numbers to fit; all unless given.
    folds, iterations : int
        Parts of the cross-validation; most iterations.

    Returns
    -------
    Fit
        `.yaml` is the calibration file.

    Raises
    ------
    InputError
        A device without a data sheet, no rows of it, fewer rows than numbers.
    MachineError
        This build has no Ceres.
    """
    answer = _core.fit(_files(runs), [device] if isinstance(device, str) else list(device), os.fspath(start), list(only), folds, iterations)
    numbers = {key: FittedNumber(*parts) for key, parts in answer.parameters.items()}
    return Fit(answer.yaml, answer.table, numbers, answer.errors, answer.rows, answer.iterations, answer.converged, answer.left_out)


def _costs(costs: Mapping[str, Any] | str) -> str:
    if isinstance(costs, str):
        return costs
    parts = []
    for name, cost in costs.items():
        parts.append(f"{name}=" + ("/".join(map(str, cost)) if isinstance(cost, (list, tuple)) else str(cost)))
    return ",".join(parts)


@overload
def schedule(
    name: "str | os.PathLike[str]",
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

    Parameters
    ----------
    name : str or path
        A family (`families` lists them), or a CSV file with an order.
    ranks, microbatches : int
        Its sizes; a file has its own.
    costs : dict
        Time of each pass, in any unit: ``{"F": 10, "I": 12, "W": 8, "comm": 1}``; a list gives one number for each stage.
    **options
        Of the family: ``stages_per_rank=2``.

    Returns
    -------
    Schedule
        Also of an order that is not legal: `.legal` and `.problems` say so.

    Raises
    ------
    InputError
        No such family or option, sizes that the family does not have, a file that cannot be read.

    Examples
    --------
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
    return _named(what, **given)


def _named(
    name: "str | os.PathLike[str]",
    *,
    ranks: int | None = None,
    microbatches: int | None = None,
    costs: Mapping[str, Any] | str = "",
    **options: Any,
) -> Schedule:
    text = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in options.items()}
    given = _costs(costs)
    return Schedule(_core.schedule(os.fspath(name), ranks, microbatches, text, given, ""), given)


def families() -> list[Family]:
    """The families of schedules, with their options."""
    return [Family(*parts) for parts in _core.schedule_families()]
