"""Work items that travel to other processes and machines. A worker needs this package, and the files that a scenario names at the
same paths."""

from __future__ import annotations

import os
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Callable, Iterable

from panpipe import _core
from panpipe._inputs import _fault, _kind


def table(columns: dict[str, list]) -> _core.Table:
    """A table that was pickled."""
    return _core.table_of(columns)


def cell(
    scenario: str | dict, grid: str, index: int, meanings: dict[str, str], refusal: str, stop: _core.StopToken | None = None
) -> str:
    return _core.sweep_cell(scenario, grid, index, meanings, refusal, stop)


def plan(
    scenario: str | dict, overrides: list[str], request: tuple, time_limit: float, stop: _core.StopToken | None = None
) -> tuple[str, str]:
    return _core.plan(scenario, overrides, _core.plan_request(*request), time_limit, stop)


def spread(
    executor: Executor | None,
    threads: int | None,
    function: Callable,
    calls: Iterable[tuple],
    progress: Callable[[int, int], Any] | None = None,
) -> list:
    """The answers in the order of the calls. Without an executor threads of this process do the work: the module releases the GIL.
    Ctrl-C then ends the calls that run; those of other executors are theirs to end."""
    if executor is not None:
        if not callable(getattr(executor, "submit", None)):
            raise _fault("executor", f"an executor as of concurrent.futures is wanted, with submit(), not a {_kind(executor)}")
        return _gather(executor, function, list(calls), progress)
    stop = _core.StopToken()
    with ThreadPoolExecutor(threads or os.cpu_count() or 1) as own:
        try:
            return _gather(own, partial(function, stop=stop), list(calls), progress)
        except BaseException:
            stop.stop()
            raise


def _gather(executor: Executor, function: Callable, calls: list[tuple], progress: Callable[[int, int], Any] | None) -> list:
    futures: list[Future] = [executor.submit(function, *call) for call in calls]
    answers = []
    try:
        for future in futures:
            answers.append(future.result())
            if progress is not None:
                progress(len(answers), len(futures))
    except BaseException:
        for future in futures:
            future.cancel()
        raise
    return answers
