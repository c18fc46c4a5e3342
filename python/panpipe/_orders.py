"""Orders in the place of a schedule's name, as a scenario and a sweep take them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from panpipe import _core
from panpipe._errors import InputError
from panpipe._families import OwnFamily
from panpipe._inputs import File, Scenario, Settings, _evidence, _overrides, _source
from panpipe._schedules import Schedule

KEY = "schedule"
_OF_ANY_SIZE = f"{KEY}=gpipe"  # while the sizes are asked for


def is_order(value: Any) -> bool:
    return isinstance(value, (Schedule, OwnFamily))


def _stated(order: Schedule) -> dict[str, Any]:
    return {"name": order.name, "csv": order.to_csv().splitlines()}


def _made(order: "Schedule | OwnFamily", source: "str | dict", overrides: list[str], stated: bool = False) -> dict[str, Any]:
    if isinstance(order, Schedule):
        return _stated(order)
    return _stated(order(*_core.pipeline_sizes(source, [*overrides, _OF_ANY_SIZE], stated)))


def without_order(scenario: Scenario, settings: Settings) -> "tuple[Scenario, Settings, Schedule | OwnFamily | None]":
    """The scenario, what is set, and the order that either names."""
    order = None
    if isinstance(scenario, Mapping) and is_order(scenario.get(KEY)):
        order = scenario[KEY]
        scenario = {key: value for key, value in scenario.items() if key != KEY}
    if isinstance(settings, Mapping) and KEY in settings:
        order = settings[KEY] if is_order(settings[KEY]) else None
        if order is not None:
            settings = {key: value for key, value in settings.items() if key != KEY}
    return scenario, settings, order


def asked(
    scenario: Scenario, settings: Settings, stated: bool = False, evidence: "Sequence[File]" = ()
) -> "tuple[str | dict, list[str]]":
    """Scenario and overrides, with the rows of the order that they name. `stated`: the sizes must be, since a search would choose them."""
    scenario, settings, order = without_order(scenario, settings)
    source, overrides = _source(scenario), _overrides(settings) + _evidence(evidence)
    if order is None:
        return source, overrides
    return source, [f"{KEY}={json.dumps(_made(order, source, overrides, stated))}", *overrides]


class SweptOrders:
    """The orders of a sweep. Its grid calls them by their names; each cell has an order of its sizes."""

    def __init__(self, orders: "Sequence[Schedule | OwnFamily]"):
        self._by_name: dict[str, Schedule | OwnFamily] = {}
        for order in orders:
            if self._by_name.setdefault(order.name, order) is not order:
                raise InputError(
                    f"two orders of the sweep are called {order.name}",
                    remedy="give one another name: @panpipe.schedule(name=...)",
                )

    def for_grid(self) -> dict[str, str]:
        """Whether keys and values can be meant is asked with any schedule."""
        return {f"{KEY}={name}": _OF_ANY_SIZE for name in self._by_name}

    def _for_cell(self, source: "str | dict", overrides: list[str]) -> tuple[dict[str, str], str]:
        named = next((one for one in overrides if one in self.for_grid()), None)
        if named is None:
            return {}, ""
        others = [one for one in overrides if one != named]
        try:
            made = _made(self._by_name[named[len(KEY) + 1 :]], source, others)
        except InputError as error:
            return self.for_grid(), error.diagnostics[0].message
        return {named: f"{KEY}={json.dumps(made)}"}, ""

    def cells(
        self, source: "str | dict", sets: list[str], axes: list[tuple[str, list[str]]]
    ) -> Iterator[tuple[dict[str, str], str]]:
        """For each cell in the grid's order: what its words mean, and why it has no order."""
        keys = [key for key, _ in axes]
        for values in itertools.product(*(values for _, values in axes)):
            yield self._for_cell(source, [*sets, *(f"{key}={value}" for key, value in zip(keys, values))])
