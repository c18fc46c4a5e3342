"""Measured runs: how far predictions can be trusted, and calibrations fitted to them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from panpipe import _core
from panpipe._core import Table
from panpipe._inputs import File, Files, _assignments, _count, _files, _number, _path, _some_files, _text, _texts
from panpipe._views import Tabled, table_of


@dataclass(frozen=True, slots=True)
class Validation(Tabled):
    """Measured runs and their predictions.

    ok: Whether every tolerance that was given is kept.
    rows: As in the document.
    document: panpipe-validation/1; of matrix products as the command prints it.
    page: A self-contained HTML page; empty of matrix products.
    text: The table for a terminal.
    evidence: With `learn=True` of `validate`: the file that states how sure predictions are.
    """

    ok: bool
    rows: list[dict[str, Any]] = field(repr=False)
    document: dict[str, Any] = field(repr=False)
    page: str = field(repr=False)
    text: str = field(repr=False, default="")
    evidence: str = field(repr=False, default="")

    @property
    def table(self) -> Table:
        """A row per run, with those of its fields that are numbers or text."""
        plain = (str, int, float, type(None))
        return table_of({name: value for name, value in row.items() if isinstance(value, plain)} for row in self.rows)


@dataclass(frozen=True, slots=True)
class FittedNumber:
    """A number of a calibration: its value, one standard deviation, and whether the rows determine it."""

    value: float
    uncertainty: float
    determined: bool


@dataclass(frozen=True, slots=True)
class Fit:
    """A device calibration from measured runs.

    yaml: The calibration file: write it, and name it in a device or with `calibrations=` of `validate`.
    parameters: Key of the file to its FittedNumber.
    errors: Shares of 1 over the rows: mean, median, worst, bias; `before` with the start values, `folds` cross-validated.
    left_out: Rows that were left out: "id: reason".
    left_out_table: Each row's prediction by a fit without its source (CSV): write it into a file for `left_out=` of `validate`.
    """

    yaml: str = field(repr=False)
    text: str = field(repr=False)
    parameters: dict[str, FittedNumber]
    errors: dict[str, float]
    rows: int
    iterations: int
    converged: bool
    left_out: list[str] = field(repr=False)
    left_out_table: str = field(repr=False, default="")


def validate(
    runs: Files,
    *,
    calibrations: Files = (),
    tolerances: Mapping[str, str] | Sequence[str] = (),
    left_out: Files = (),
    without: str | Sequence[str] = (),
    given: str | Sequence[str] = (),
    learn: bool = False,
    threads: int | None = None,
) -> Validation:
    """Predict measured runs, and report how far predictions can be trusted.

    runs: Tables of measured runs, or of matrix products by shape (CSV).
    calibrations: Device calibrations to use instead of the shipped ones.
    tolerances: ``{"mean": "5%"}``: `.ok` is False when a figure is worse.
    left_out: Tables that `Fit.left_out_table` holds: their rows are judged by predictions of fits without their source.
    without: Rows of this id or source are left out.
    given: Ids of rows that are evidence for the others of their source: the others are predicted with it.
    learn: Judge these rows by the evidence that they are; `.evidence` is then the file that
        `panpipe validate --learn` writes.
    threads: Rows at a time; all cores unless given.
    Raises InputError: A table that cannot be read, with line and column; a figure, or a row to leave out, that does not exist.
    """
    ok, text, page, table, measured = _core.validate(
        _some_files("runs", runs),
        _files("calibrations", calibrations),
        _assignments("tolerances", tolerances),
        _files("left_out", left_out),
        _texts("without", without),
        _texts("given", given),
        bool(learn),
        _count("threads", threads, 0),
    )
    document = json.loads(text)
    return Validation(ok, document.get("rows") or document.get("products") or [], document, page, table, measured)


def fit(
    runs: Files,
    device: str | Sequence[str],
    *,
    start: File | None = None,
    only: str | Sequence[str] = (),
    without: Mapping[str, str] | str | Sequence[str] = (),
    precision: str = "fp32",
    folds: int = 5,
    iterations: int = 30,
    robust_scale: float = 0.05,
    balance: float = 0.5,
) -> Fit:
    """Fit a device calibration to measured runs by robust least squares.

    runs: Tables of measured runs (CSV); or profiles (YAML) and tables of operators (CSV) of `panpipe profile`.
    device: Rows of this gpu are fitted: "A100-80G-SXM". With profiles the device's name or file.
    start: A calibration to start from, or the name of a shipped one; a-priori values unless given.
    only: Numbers to fit; all unless given.
    without: Ids or sources whose rows are left out; a dict states why.
    precision: {"fp32", "tf32", "bf16", "fp16"}; of a profile's operators.
    folds, iterations: Parts of the cross-validation; most iterations.
    robust_scale: Logarithm of an error beyond which a row counts by its size, not its square.
    balance: A row weighs (rows of its source)^-balance: 0 all rows alike, 1 all sources alike.
    Returns Fit: `.yaml` is the calibration file. Of profiles it has no errors and no single numbers.
    Raises InputError: A device without a data sheet, no rows of it, fewer rows than numbers, a row to leave out that does not
        exist.
    Raises MachineError: This build has no Ceres.
    """
    yaml, text, numbers, errors, rows, tries, converged, left_out, left_out_text = _core.fit(
        _some_files("runs", runs),
        _texts("device", device),
        _path("start", start),
        _texts("only", only),
        _assignments("without", without),
        _text("precision", precision),
        _count("folds", folds),
        _count("iterations", iterations),
        _number("robust_scale", robust_scale),
        _number("balance", balance),
    )
    parameters = {key: FittedNumber(*parts) for key, parts in numbers.items()}
    return Fit(yaml, text, parameters, errors, rows, tries, converged, left_out, left_out_text)
