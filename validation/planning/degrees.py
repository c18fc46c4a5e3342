#!/usr/bin/env python3
"""Megatron-LM's published degrees compared with those that `panpipe plan` finds, and the plans of the shipped examples.

    validation/planning/degrees.py build/release/bin/panpipe [published | examples]

Prints tables in Markdown: seconds, simulated with contention.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from answers import answer, table

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "scenarios/examples"
BASE = EXAMPLES / "gpt3-175b-a100x64.yaml"
GPT = "workload={{model: gpt, layers: {}, hidden: {}, heads: {}, vocabulary: 51200, sequence: 2048}}"
MODELS = {"175B": "workload.vocabulary=51200", "530B": GPT.format(105, 20480, 128), "1T": GPT.format(128, 25600, 160)}
# model, GPUs, samples a step; pipeline, tensor, data, schedule, stages a rank, recompute, sequence parallelism; seconds measured.
# arXiv 2104.04473, tables 1 and 2; arXiv 2205.05198, table 5 and section 6.3.
PUBLISHED = [
    ("175B", 384, 1536, 12, 8, 4, "1f1b", 1, "full", False, 76.78),
    ("175B", 1536, 1536, 12, 8, 16, "1f1b", 1, "full", False, 20.83),
    ("530B", 280, 280, 35, 8, 1, "interleaved-1f1b", 3, "full", False, 49.05),
    ("530B", 2240, 2240, 35, 8, 8, "interleaved-1f1b", 3, "selective", True, 39.15),
    ("1T", 512, 512, 64, 8, 1, "1f1b", 1, "selective", True, 71.49),
    ("1T", 3072, 3072, 64, 8, 6, "interleaved-1f1b", 2, "full", False, 102.63),
]


def seconds(metrics):
    return f"{metrics['step_time_s']:.3g}" if metrics["step_time_s"] < 10 else f"{metrics['step_time_s']:.2f}"


def planned(panpipe, scenario, settings):
    best = answer(panpipe, "plan", scenario, settings)["best"]
    figures = best.get("simulated") or best["metrics"]
    chosen = best["settings"]
    text = f"{chosen['parallel.pipeline']} × {chosen['parallel.tensor']} × {chosen['parallel.data']}"
    if chosen["parallel.sequence_parallel"] in (True, "true"):
        text += " + sequence"
    schedule = dict(best["schedule"])
    name = schedule.pop("name")
    options = ", ".join(str(value) if key == "stages_per_rank" else f"{key} {value}" for key, value in schedule.items())
    text += f", {name}" + (f" ({options})" if options else "")
    text += f", {chosen['recompute']}, micro {chosen['batch.micro']}"
    if int(chosen["parallel.zero"]) > 0:
        text += f", ZeRO {chosen['parallel.zero']}"
    return f"{seconds(figures)}: {text}, {figures['peak_memory_bytes'] / 2**30:.1f} GiB"


def published(panpipe):
    for model, gpus, batch, p, t, d, schedule, chunks, recompute, sequence, measured in PUBLISHED:
        common = [f"cluster.nodes={gpus // 8}", MODELS[model]]
        flag = str(sequence).lower()
        as_it_was = [
            f"parallel={{pipeline: {p}, tensor: {t}, data: {d}, virtual_stages: {chunks}, sequence_parallel: {flag}}}",
            f"batch={{micro: 1, microbatches: {batch // d}}}",
            f"schedule={schedule}",
            f"recompute={recompute}",
        ]
        predicted = answer(panpipe, "simulate", BASE, common + as_it_was, "--backend", "flow")["metrics"]
        open_batch = f"batch={{micro: auto, microbatches: {batch}}}"
        same = [f"parallel={{zero: 0, sequence_parallel: {flag}}}", f"schedule={schedule}", f"recompute={recompute}"]
        free = ["schedule=auto", "recompute=auto"]
        cells = [
            planned(panpipe, BASE, common + [open_batch, *settings])
            for settings in (same, ["parallel={zero: 0}", *free], ["parallel={}", *free])
        ]
        was = f"{p} × {t} × {d}{' + sequence' if sequence else ''}, {schedule}{f' ({chunks})' if chunks > 1 else ''}, {recompute}"
        yield f"{model}, {gpus}, {batch}", was, measured, seconds(predicted), *cells


def examples(panpipe):
    for name, batch in (("gpt3-175b-a100x64", 64), ("gpt2-large-rtx3090x8", 16), ("gpt2-large-rtx3090x8-nobridge", 32)):
        scenario = EXAMPLES / f"{name}.yaml"
        now = answer(panpipe, "simulate", scenario, [])["metrics"]
        everything = ["parallel={}", "schedule=auto", "recompute=auto", f"batch={{micro: auto, microbatches: {batch}}}"]
        yield name, seconds(now), planned(panpipe, scenario, everything)


def main():
    panpipe = sys.argv[1] if len(sys.argv) > 1 else "build/release/bin/panpipe"
    columns = {
        published: ["model, GPUs, batch", "published", "measured", "predicted", "same means", "no ZeRO", "all"],
        examples: ["example", "as it stands", "planned"],
    }
    for study, names in columns.items():
        if study.__name__ in (sys.argv[2:] or ["published", "examples"]):
            for line in table(names, study(panpipe)):
                print(line, flush=True)


main()
