"""Panpipe predicts, plans, simulates and explains steps of pipeline-parallel training.

>>> import panpipe
>>> step = panpipe.estimate("examples/gpt3-175b-a100x64.yaml", set={"recompute": "selective"})
>>> step.step_time_s, step.metrics["bubble_step"]

A scenario is the path of a file, the name of a shipped one, or a dict with the same keys. Results are dataclasses; their tables
(`timeline`, `table`) are read by pandas, polars and pyarrow without a copy, through the Arrow PyCapsule interface.
"""

import sys as _sys

from panpipe._errors import Diagnostic, InputError, InternalError, MachineError, NoAnswer, PanpipeError

try:
    from panpipe import _core
except ImportError as _error:
    _why: "ImportError | None" = _error
else:
    _why = None
    from panpipe._arena import Arena, arena
    from panpipe._calls import check, estimate, families, largest, plan, schedule, simulate, sweep
    from panpipe._certificate import Certificate, certify
    from panpipe._core import Table
    from panpipe._documents import (
        Comparison,
        ExportedJob,
        ImportedJob,
        TrainingLog,
        compare,
        export,
        import_job,
        import_log,
        report,
        shipped,
        support,
    )
    from panpipe._families import OwnFamily
    from panpipe._measured import Fit, FittedNumber, Validation, fit, validate
    from panpipe._results import Candidate, Checked, Largest, Plan, Prediction, Sizes, Sweep
    from panpipe._run import Run, run
    from panpipe._schedules import Family, Schedule, ScheduleProblem

# Not of importlib.metadata, which takes as long to import as the module.
__version__ = _core.version if _why is None else "unknown"

# fmt: off
__all__ = [
    "Arena", "Candidate", "Certificate", "Checked", "Comparison", "Diagnostic", "ExportedJob", "Family", "Fit",
    "FittedNumber", "ImportedJob", "InputError", "InternalError", "Largest", "MachineError", "NoAnswer", "OwnFamily",
    "PanpipeError", "Plan", "Prediction", "Run", "Schedule", "ScheduleProblem", "Sizes", "Sweep", "Table", "TrainingLog", "Validation",
    "__version__",
    "arena", "certify", "check", "compare", "estimate", "export", "families", "fit", "import_job", "import_log", "largest", "plan",
    "report", "run", "schedule", "shipped", "simulate", "support", "sweep", "validate",
]
# fmt: on


def _built_modules() -> str:
    """The files of the module, whose names state the release of Python that each is for: cpython-311; abi3 for all from 3.12 on."""
    import pathlib

    names = sorted(path.name for path in pathlib.Path(__file__).parent.glob("_core*.so"))
    return ", ".join(names) if names else "no file _core*.so"


def __getattr__(name: str):
    if _why is not None and name in __all__:
        raise ImportError(
            f"panpipe.{name} needs the module panpipe._core, which does not load here: {_why}\n"
            f"  help: this is {_sys.implementation.name} {_sys.version_info.major}.{_sys.version_info.minor}, and the folder of panpipe "
            f"has {_built_modules()}; the command `panpipe` works without it"
        )
    raise AttributeError(f"module 'panpipe' has no attribute '{name}'")
