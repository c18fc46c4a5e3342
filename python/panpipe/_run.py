"""Training a scenario for real: the program `panpipe run` of this package, and its gradients compared with those of one process."""

from __future__ import annotations

import array
import json
import math
import pathlib
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from typing import Any

from panpipe import _core
from panpipe._calls import estimate
from panpipe._inputs import Scenario, Settings
from panpipe._orders import asked as _asked
from panpipe._errors import InputError, InternalError, MachineError, PanpipeError
from panpipe._views import Documented

_PANPIPE = pathlib.Path(str(_core.__file__)).parent / "_prefix" / "bin" / "panpipe"
# fp32 sums of another order: of the largest gradient of a parameter. As the tests of the executor hold all families to it.
TOLERANCE = 2e-5
_ALONE = {"parallel": "{pipeline: 1, tensor: 1, data: 1}", "schedule": "gpipe", "partition": "auto", "placement": "auto"}


@dataclass(frozen=True, slots=True)
class Run(Documented):
    """A measured run; `run` returns it.

    step_time_s: Of a measured step, in seconds.
    predicted_step_time_s: Of the scenario's devices on idle links; None where their rates are not known (`profile=True`
        measures them).
    losses: Of the measured steps.
    gradient_difference: The largest between the gradients of the last step and those of one process, as a share of the largest
        gradient of the same parameter; None with `gradients=False`.
    gradients_equal: Whether that is rounding: at most 2e-5.
    document: panpipe-result/1, of the measured run.
    """

    step_time_s: float
    predicted_step_time_s: float | None
    losses: list[float]
    gradient_difference: float | None
    gradients_equal: bool | None
    document: dict[str, Any] = field(repr=False)

    @property
    def metrics(self) -> dict[str, Any]:
        """The measured figures, as of a `Prediction`."""
        return self.document["metrics"]


def _program(words: list[str]) -> str:
    try:
        done = subprocess.run([str(_PANPIPE), *words], capture_output=True, text=True, check=False)
    except OSError as error:
        raise MachineError(f"cannot start {_PANPIPE}: {error.strerror}") from None
    if done.returncode == 0:
        return done.stdout
    kind = {2: InputError, 3: MachineError, 70: InternalError}.get(done.returncode, PanpipeError)
    raise kind(done.stderr.strip() or f"panpipe {words[0]} ended with {done.returncode}")


def _set(settings: dict[str, str]) -> list[str]:
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def _tensors(path: str) -> dict[str, array.array]:
    """Of a safetensors file that holds F32 alone."""
    data = pathlib.Path(path).read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:start]).items():
        if name == "__metadata__":
            continue
        first, end = entry["data_offsets"]
        tensors[name] = array.array("f", data[start + first : start + end])
        if sys.byteorder == "big":
            tensors[name].byteswap()
    return tensors


def _difference(found: dict[str, array.array], expected: dict[str, array.array]) -> float:
    if found.keys() != expected.keys():
        raise InternalError(f"gradients of other parameters than one process has: {sorted(found.keys() ^ expected.keys())[:3]}")
    worst = 0.0
    for name, values in expected.items():
        largest = max(map(abs, values), default=0.0)
        apart = [abs(a - b) for a, b in zip(found[name], values, strict=True)]
        if not all(map(math.isfinite, apart)):
            return math.inf
        most = max(apart, default=0.0)
        if most > 0:
            worst = max(worst, most / largest if largest else math.inf)
    return worst


def _predicted(scenario: str, overrides: dict[str, str]) -> float | None:
    try:
        return estimate(scenario, set=overrides).step_time_s
    except InputError:  # no rates; whatever else is wrong, the run has refused
        return None


def run(
    scenario: Scenario,
    *,
    set: Settings = None,
    steps: int = 5,
    warmup: int = 1,
    transport: str = "",
    device: str = "",
    threads: int | None = None,
    gradients: bool = True,
    profile: bool = False,
    allow_overcommit: bool = False,
) -> Run:
    """Train a scenario on this machine, and compare its gradients with those of one process that trains the same.

    scenario, set: As of `estimate`; a schedule of one's own is ``set={"schedule": mine}``.
    steps, warmup: Steps that are measured, and before them.
    transport: {"", "local", "gloo", "nccl"}; how ranks talk: threads of one process, or processes; as `panpipe run` chooses
        unless given.
    device: {"", "cpu", "cuda"}
    threads: Of a rank within an operator; cores / ranks unless given.
    gradients: Train it in one process too, without a pipeline, and compare the last step's gradients.
    profile: Measure this machine first (`panpipe profile`, some seconds), for the prediction that is compared with the measurement.
    allow_overcommit: Start also where the memory does not seem to hold the ranks.
    Raises InputError, MachineError, PanpipeError: As the exit codes 2, 3 and others of `panpipe run`, with its message.
        MachineError: this package has no executor (LibTorch).

    >>> done = panpipe.run("my.yaml", set={"schedule": mine}, transport="local")
    >>> done.step_time_s, done.gradients_equal
    """
    source, overrides = _asked(scenario, set)
    text, micro, microbatches = _core.scenario_to_run(source, overrides)
    of_ranks = ["--threads", str(threads)] if threads else []
    with tempfile.TemporaryDirectory(prefix="panpipe-run-") as name:
        folder = pathlib.Path(name)
        file, measured, dump, expected = (
            str(folder / part) for part in ("scenario.yaml", "profile.yaml", "gradients.safetensors", "alone.safetensors")
        )
        pathlib.Path(file).write_text(text, encoding="utf-8")

        def trained(*words: str) -> str:
            on = ["--device", str(device)] if device else []
            return _program(["run", file, "--no-progress", "--steps", str(steps), "--warmup", str(warmup), "--json", *on, *words])

        if profile:
            ranks = str(_core.pipeline_sizes(source, overrides)[0])
            _program(["profile", file, "-o", measured, "--ranks", ranks, *of_ranks])
        settings = {"profile": measured} if profile else {}
        words = [*_set(settings), *of_ranks]
        words += ["--transport", str(transport)] if transport else []
        words += ["--allow-overcommit"] if allow_overcommit else []
        words += ["--dump-gradients", dump] if gradients else []
        document = json.loads(trained(*words))
        difference = None
        if gradients:
            batch = {"batch": f"{{micro: {micro}, microbatches: {microbatches}}}"}
            trained(*_set(_ALONE | batch), "--transport", "local", "--dump-gradients", expected)
            difference = _difference(_tensors(dump), _tensors(expected))
        return Run(
            document["metrics"]["step_time_s"],
            _predicted(file, settings),
            document["losses"],
            difference,
            None if difference is None else difference <= TOLERANCE,
            document,
        )
