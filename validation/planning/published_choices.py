#!/usr/bin/env python3
"""Pfeife's published schedules for eight RTX 3090 (ICML 2025, Table 5) and our plans, all evaluated by `panpipe simulate`.

    validation/planning/published_choices.py build/release/bin/panpipe

Prints the table of docs/models/planning.md in Markdown: milliseconds, and the peak of the fullest device.
"""

import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from answers import answer, table

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCENARIO = ROOT / "validation/pfeife/row.yaml"  # as the table was run: fp32, one process
MODELS = {
    "GPT-2 large": [],
    "ViT-g/14": ["workload={model: vit-g-14}", "batch.micro=6", "framework=pfeife-timm"],
    "SDXL's U-Net": ["workload={model: sdxl-unet, image: 64}", "batch.micro=1", "framework=pfeife-timm"],
}
# Table 5's stages per rank, loop_batch and prefetch, by model; the U-Net has none there and takes ViT's.
ONE = {"GPT-2 large": 2, "ViT-g/14": 3, "SDXL's U-Net": 3}


def member(stages, loop_batch, prefetch):
    return f"schedule={{name: pfeife, stages_per_rank: {stages}, loop_batch: {loop_batch}, prefetch: {prefetch}}}"


def call(panpipe, verb, model, settings, *further):
    return answer(panpipe, verb, SCENARIO, ["usable=85 %", *MODELS[model], *settings], *further)


def figures(result):
    metrics = result["metrics"]
    return f"{metrics['step_time_s'] * 1e3:.1f}, {metrics['peak_memory_bytes'] / 2**30:.1f} GiB" + (
        "" if metrics["fits"] else ", does not fit"
    )


def planned(panpipe, model, settings):
    """The plan's own figures by simulation, and its schedule."""
    with tempfile.TemporaryDirectory() as folder:
        plan = pathlib.Path(folder) / "plan.yaml"
        found = call(panpipe, "plan", model, settings, "--method", "pfeife", "-o", plan)
        return figures(call(panpipe, "simulate", model, settings, "--plan", plan)), found["best"]["schedule"]


def compared(panpipe):
    rows = {"1 stage a rank, prefetch 2 (ViT, U-Net 3)": lambda model: member(1, 8, ONE[model])}
    for stages in (2, 3):
        rows[f"{stages} stages a rank, `loop_batch` 8, prefetch 3"] = lambda model, stages=stages: member(stages, 8, 3)
    for name, schedule in rows.items():
        yield f"{name}, even cuts", *(figures(call(panpipe, "simulate", model, [schedule(model)])) for model in MODELS)
        yield "the same, our cuts", *(planned(panpipe, model, [schedule(model)])[0] for model in MODELS)
    for name, schedule in {"`schedule: pfeife`": "schedule=pfeife", "`schedule: auto`": "schedule=auto"}.items():
        cells = []
        for model in MODELS:
            found, chosen = planned(panpipe, model, [schedule])
            options = ", ".join(f"{key} {value}" for key, value in chosen.items() if key != "name")
            cells.append(f"{found}: {chosen['name']}{', ' + options if options else ''}")
        yield f"our plan, {name}", *cells


for line in table(["", *MODELS], compared(sys.argv[1] if len(sys.argv) > 1 else "build/release/bin/panpipe")):
    print(line, flush=True)
