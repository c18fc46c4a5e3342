"""What results have in common: their document, their table, and attributes that the module holds."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar, overload

from panpipe import _core
from panpipe._core import Table

Value = TypeVar("Value")


class View(property, Generic[Value]):
    """An attribute of `_core`, the module's object behind a result, under the same name."""

    def __init__(self, doc: str):
        super().__init__()
        self.__doc__ = doc

    def __set_name__(self, owner: Any, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, result: None, owner: type, /) -> View[Value]: ...

    @overload
    def __get__(self, result: Any, owner: type | None = None, /) -> Value: ...

    def __get__(self, result: Any, owner: type | None = None, /) -> Any:
        return self if result is None else getattr(result._core, self._name)


class Documented:
    """A result with the document of the command in `document`."""

    __slots__ = ()
    document: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """The document, as the command prints it with `--json`."""
        return self.document


class Tabled(Documented):
    """A result that a notebook shows as its table."""

    __slots__ = ()

    @property
    def table(self) -> Table:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return html_table(self.table)


def table_of(rows: Iterable[Mapping[str, Any]], first: Iterable[str] = ()) -> Table:
    """A row for each dict, None where it lacks a key. The columns `first` come first, and are there without rows too."""
    rows = list(rows)
    names = dict.fromkeys([*first, *(name for row in rows for name in row)])
    return _core.table_of({name: [row.get(name) for row in rows] for name in names})


def html_text(text: str) -> str:
    return f"<pre>{html.escape(text)}</pre>"


def html_table(table: Table, most: int = 60) -> str:
    def shown(value: Any) -> str:
        return html.escape("" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value))

    columns = table.to_pydict()
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    rows = zip(*(column[:most] for column in columns.values()))
    body = "".join("<tr>" + "".join(f"<td>{shown(value)}</td>" for value in row) + "</tr>" for row in rows)
    more = f"<p>{len(table) - most} more rows</p>" if len(table) > most else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"
