"""Documents of further verbs: compare, report, support, list; jobs of other trainers in and out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from panpipe import _core
from panpipe._inputs import File, Scenario, Settings, _assignments, _count, _defines, _fault, _path, _text, _texts
from panpipe._orders import asked as _asked
from panpipe._results import Prediction
from panpipe._views import Documented

Result = Union[Prediction, File]


def _result(name: str, result: Any) -> tuple[str, str, str, str]:
    if isinstance(result, Prediction):
        return name, json.dumps(result.to_dict(timeline=True)), result.scenario, result.plan
    if result is None:
        raise _fault(name, "a prediction or a path is wanted, not None")
    return _path(name, result), "", "", ""


@dataclass(frozen=True, slots=True)
class Comparison(Documented):
    """Two results compared.

    ok: Whether every tolerance that was given is kept.
    document: As `panpipe compare --json` prints it.
    text: The tables for a terminal.
    """

    ok: bool
    document: dict[str, Any] = field(repr=False)
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ImportedJob:
    """A job of another trainer as a scenario.

    scenario: For the other functions.
    yaml: The same as a file, with the argument or key that each value comes from.
    assumptions, not_modelled, not_understood: What the job leaves open and the scenario states; arguments that predictions do
        not know; arguments that nobody here knows.
    fault: Why the scenario cannot be predicted as it is; empty where it can.
    """

    scenario: dict[str, Any]
    yaml: str = field(repr=False)
    assumptions: list[str] = field(repr=False)
    not_modelled: list[str] = field(repr=False)
    not_understood: list[str] = field(repr=False)
    fault: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class TrainingLog(Documented):
    """What a training log measured.

    document: As `panpipe import log --json` prints it: trainer, measured step, what was left out, prediction.
    text: The same for a terminal.
    yaml: The job as a scenario, where the log states it; else empty.
    row: A table of this run, for `validate` and `fit`; empty where job or GPUs are not known.
    """

    document: dict[str, Any]
    text: str = field(repr=False)
    yaml: str = field(repr=False)
    row: str = field(repr=False)

    @property
    def step_time_s(self) -> float:
        """The measured step: the median of the steady state."""
        return self.document["measured"]["step_time_s"]


@dataclass(frozen=True, slots=True)
class ExportedJob:
    """A plan in the words of another trainer.

    text: Its arguments, configuration or program.
    schedule_csv: The order of the passes, for a second file; empty where the trainer needs none.
    cannot: What the trainer cannot express.
    besides: What else to know or do.
    difference: With `base`, what changes in it, as `diff -u` shows it; empty where it has this plan.
    """

    text: str
    schedule_csv: str = field(repr=False)
    cannot: list[str]
    besides: list[str] = field(repr=False)
    difference: str = field(repr=False)


def compare(
    a: Result, b: Result, *, tolerances: Mapping[str, str] | Sequence[str] = (), metrics_only: bool = False
) -> Comparison:
    """Compare two results: metrics, actions, and the reasons why devices waited.

    a, b: A prediction, a result.json, or a folder that `-o` of a command wrote.
    tolerances: ``{"step_time_s": "3%"}``: `.ok` is False when a metric differs by more.
    metrics_only: Metrics alone: for results of different plans.
    Raises InputError: A metric that does not exist, timelines of different plans, a file that is no result.
    """
    text, table, ok = _core.compare(_result("a", a), _result("b", b), _assignments("tolerances", tolerances), bool(metrics_only))
    return Comparison(ok, json.loads(text), table)


def report(result: Result, other: Result | None = None) -> str:
    """A page about a result, or about two over each other: drawing, breakdown, hints.

    result, other: As of `compare`.
    Returns str: Self-contained HTML.
    """
    return _core.report([_result("result", result)] + ([] if other is None else [_result("other", other)]))


def support(
    scenario: Scenario, *, set: Settings = None, plan: File | None = None, evidence: Sequence[File] = ()
) -> dict[str, Any]:
    """Say what of a scenario was ever compared with measured runs, and how sure its prediction therefore is.

    scenario, set, plan, evidence: As of `estimate`.
    Returns dict: The document panpipe-support/1: the interval of the step in seconds, parts with their errors as shares of 1,
        devices, and what was never compared.
    """
    return json.loads(_core.support(*_asked(scenario, set, evidence=evidence), _path("plan", plan)))


def shipped(kind: str = "") -> list[dict[str, Any]]:
    """The names that a scenario may use, each with a line and its source: `panpipe list`.

    kind: {"models", "clusters", "devices", "schedules", "trainers", "frameworks", "calibrations", "prices"}; without it, how many there are
        of each.

    >>> "gpt3-175b" in [model["name"] for model in panpipe.shipped("models")]
    True
    """
    return json.loads(_core.shipped(_text("kind", kind)))["items"]


def _stated(**options: Any) -> dict[str, str | int]:
    """Those of a job's options that are given, as the module takes them."""
    given = {name: option for name, option in options.items() if option is not None}
    return {name: (_path if name in ("cluster", "model") else _count)(name, option) for name, option in given.items()}


def import_job(
    trainer: str,
    file: File,
    *,
    cluster: File | None = None,
    gpus: int | None = None,
    model: File | None = None,
    sequence: int | None = None,
    micro: int | None = None,
    vocabulary: int | None = None,
    overrides: Sequence[str] = (),
    define: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
) -> ImportedJob:
    """Turn a job of another trainer into a scenario. Its text is parsed; nothing is run.

    trainer: A name of `shipped("trainers")` that is imported; whose job it is.
    file: A launch script or its arguments (megatron), or the trainer's configuration.
    cluster: A cluster file or shipped name; nodes of eight H100 unless given.
    gpus, model, sequence, vocabulary: GPUs of the job, the model's config.json, tokens of a sample and of the tokenizer, where the
        job does not state them.
    micro: Samples of a microbatch, where they are open.
    define, arguments: Of a script of megatron: variables that it leaves open, and all arguments that it takes.
    overrides: Of torchtitan: words behind the file, ``["--parallelism.tensor_parallel_degree", "2"]``.
    Returns ImportedJob: `.scenario` is a dict for the other functions.
    Raises InputError: A trainer that does not exist, a value that is none, degrees that contradict each other; with file, line
        and column.
    """
    stated = _stated(cluster=cluster, gpus=gpus, model=model, sequence=sequence, micro=micro, vocabulary=vocabulary)
    script = _texts("overrides", overrides), _defines(define), _texts("arguments", arguments)
    return ImportedJob(*_core.import_job(_text("trainer", trainer), _path("file", file), stated, *script))


def import_log(
    file: File,
    *,
    job: File | None = None,
    cluster: File | None = None,
    gpus: int | None = None,
    model: File | None = None,
    sequence: int | None = None,
    vocabulary: int | None = None,
    run: int | None = None,
) -> TrainingLog:
    """Read the measured step out of a training log, and predict its job.

    file: What Megatron-LM, Megatron-DeepSpeed, GPT-NeoX, NeMo, nanotron, torchtitan, Composer, DeepSpeed or Hugging Face's
      Trainer printed.
    job: A scenario file of the job, where the log does not state it.
    cluster: A cluster file or shipped name: the machine, which logs do not state. Without it nothing is predicted.
    gpus, model, sequence, vocabulary: What the job leaves open, as of `import_job`.
    run: The number of the run, in a log of several; the last one unless given.
    Raises InputError: A file that is no such log, a run that does not exist.
    """
    stated = _stated(cluster=cluster, gpus=gpus, model=model, sequence=sequence, vocabulary=vocabulary)
    text, table, yaml, row = _core.import_log(_path("file", file), _path("job", job), _count("run", run, 0), stated)
    return TrainingLog(json.loads(text), table, yaml, row)


def export(
    trainer: str,
    scenario: Scenario,
    *,
    set: Settings = None,
    plan: File | None = None,
    file: File | None = None,
    base: File | None = None,
    define: Mapping[str, str] | None = None,
) -> ExportedJob:
    """Write a plan for another trainer.

    trainer: A name of `shipped("trainers")` that is exported to; for whom.
    scenario, set, plan: As of `check`; `plan` is a file with the plan of `panpipe.plan`.
    file: The file that the text is meant for: the file of an order takes its name. Nothing is written.
    base: Your own job: `text` is that file with what the plan decides, and every other byte kept.
    define: Variables that a script of `base` leaves open.
    Raises InputError: As of `check`; also a trainer that can run nothing like the plan.
    """
    return ExportedJob(
        *_core.export(
            _text("trainer", trainer),
            *_asked(scenario, set),
            _path("plan", plan),
            _path("file", file),
            _path("base", base),
            _defines(define),
        )
    )
