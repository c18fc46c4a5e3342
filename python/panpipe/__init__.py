"""Panpipe predicts, plans, simulates and explains steps of pipeline-parallel training.

>>> import panpipe
>>> step = panpipe.estimate("examples/gpt3-175b-a100x64.yaml", set={"recompute": "selective"})
>>> step.step_time_s, step.metrics["bubble_step"]

A scenario is the path of a file, the name of a shipped one, or a dict with the same keys. Results are dataclasses; their tables
(`timeline`, `table`) are read by pandas, polars and pyarrow without a copy, through the Arrow PyCapsule interface.
"""

from importlib.metadata import PackageNotFoundError as _PackageNotFoundError
from importlib.metadata import version as _version

from panpipe._errors import Diagnostic, InputError, InternalError, MachineError, NoAnswer, PanpipeError

try:
    from panpipe import _core
except ImportError as _error:
    _why: "ImportError | None" = _error
else:
    _why = None
    from panpipe._calls import check, estimate, families, fit, plan, schedule, simulate, sweep, validate
    from panpipe._certificate import Certificate, certify
    from panpipe._core import Table
    from panpipe._results import Candidate, Checked, Family, Fit, FittedNumber, Plan, Prediction, Schedule, ScheduleProblem, Sizes, Sweep, Validation

try:
    __version__ = _version("panpipe")
except _PackageNotFoundError:  # a build folder
    __version__ = _core.version if _why is None else "unknown"

__all__ = [
    "Candidate",
    "Certificate",
    "Checked",
    "Diagnostic",
    "Family",
    "Fit",
    "FittedNumber",
    "InputError",
    "InternalError",
    "MachineError",
    "NoAnswer",
    "PanpipeError",
    "Plan",
    "Prediction",
    "Schedule",
    "ScheduleProblem",
    "Sizes",
    "Sweep",
    "Table",
    "Validation",
    "__version__",
    "certify",
    "check",
    "estimate",
    "families",
    "fit",
    "plan",
    "schedule",
    "simulate",
    "sweep",
    "validate",
]


def __getattr__(name: str):
    if _why is not None and name in __all__:
        raise ImportError(
            f"panpipe.{name} needs the module panpipe._core, which does not load here: {_why}\n"
            "  help: it is built for one release of CPython (or for all from 3.12 on); the command `panpipe` works without it"
        )
    raise AttributeError(f"module 'panpipe' has no attribute '{name}'")
