#!/usr/bin/env python3
"""Pfeife's table of estimates and measurements on RTX 3090 (ICML 2025, table 5), predicted by `panpipe simulate`.

    validation/pfeife/table5.py build/release/bin/panpipe [--cuts even|planned|both] [--json [FILE]] [--set KEY=VALUE ...]

What the table leaves open is read from the scripts of its authors (github MerHS/pfeife: benchmark_local.py, benchmark_mp.py; TF32
off) and from the suite that they load (pytorch/benchmark: GPT-2 large trains on 512 tokens, the vision transformer is timm's
vit_giant_patch14_224), and agrees with the table's memory: 16 bytes a parameter. Which cards make the pipelines of 2 and 4 is
not stated: neighbours with a bridge, and one socket. Cuts are not published: even ones (`partition: auto`), and those that
`panpipe plan --method pfeife` finds for the published schedule, memory not limited.
"""

import argparse
import json
import pathlib
import sys
import tempfile
from statistics import fmean

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from answers import answer, table

HERE = pathlib.Path(__file__).resolve().parent
WORKLOAD = {"vit-g-14": "{model: vit-g-14}", "gpt2-large": "{model: gpt2-large, sequence: 512}"}
FRAMEWORK = {"vit-g-14": "pfeife-timm", "gpt2-large": "pfeife-huggingface"}
GIB = 2**30


def published():
    table = json.loads((HERE / "published.json").read_text())
    return [dict(zip(table["columns"], row)) for row in table["rows"]]


def row_settings(row):
    options = "".join(f", {key}: {row[key]}" for key in ("stages_per_rank", "loop_batch", "prefetch"))
    return [
        f"workload={WORKLOAD[row['model']]}",
        f"framework={FRAMEWORK[row['model']]}",
        f"batch={{micro: {row['microbatch']}, microbatches: 8}}",
        f"parallel={{pipeline: {row['devices']}}}",
        f"schedule={{name: pfeife{options}}}",
    ]


def call(panpipe, verb, settings, *further):
    return answer(panpipe, verb, HERE / "row.yaml", settings, *further)


def predict(panpipe, row, settings, cuts):
    wanted = row_settings(row) + list(settings)
    with tempfile.TemporaryDirectory() as folder:
        further = []
        if cuts == "planned":
            plan = pathlib.Path(folder) / "plan.yaml"
            call(panpipe, "plan", wanted, "--method", "pfeife", "-o", plan)
            further = ["--plan", plan]
        return call(panpipe, "simulate", wanted, *further)


def peaks(result):
    devices = result["metrics"]["per_device"]
    return [devices[index]["peak_memory_bytes"] / GIB for index in (0, -1)]


def judged(panpipe, settings, cuts):
    rows = []
    for row in published():
        result = predict(panpipe, row, settings, cuts)
        time = result["metrics"]["step_time_s"] * 1e3
        memory = peaks(result)
        rows.append(
            {
                **row,
                "cuts": cuts,
                "predicted_ms": time,
                "error": time / row["measured_ms"] - 1,
                "published_error": row["estimated_ms"] / row["measured_ms"] - 1,
                "predicted_gib": memory,
                "memory_error": [guess / seen - 1 for guess, seen in zip(memory, row["measured_gib"])],
            }
        )
    return rows


def summary(rows):
    accepted = [row for row in rows if row["accepted"]]
    return {
        "rows": len(accepted),
        "mean_error": fmean(abs(row["error"]) for row in accepted),
        "bias": fmean(row["error"] for row in accepted),
        "worst_error": max(abs(row["error"]) for row in accepted),
        "published_mean_error": fmean(abs(row["published_error"]) for row in accepted),
        "mean_memory_error": fmean(abs(error) for row in accepted for error in row["memory_error"]),
    }


COLUMNS = "model|ranks|schedule|measured ms|predicted|error|Pfeife's|first and last device GiB|predicted|error".split("|")


def cells(row):
    schedule = f"{row['stages_per_rank']}/{row['loop_batch'] if row['stages_per_rank'] > 1 else '-'}/{row['prefetch']}"
    schedule += "" if row["accepted"] else " (rejected)"
    steps = [f"{100 * row[key]:+.1f} %" for key in ("error", "published_error")]
    memory = [", ".join(f"{value:.1f}" for value in row[key]) for key in ("measured_gib", "predicted_gib")]
    errors = ", ".join(f"{100 * error:+.0f}" for error in row["memory_error"])
    times = [row["measured_ms"], f"{row['predicted_ms']:.0f}"]
    return [row["model"], row["devices"], schedule, *times, *steps, *memory, f"{errors} %"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("panpipe", nargs="?", default="build/release/bin/panpipe")
    parser.add_argument("--cuts", choices=["even", "planned", "both"], default="both")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings")
    parser.add_argument(
        "--json", nargs="?", const="-", metavar="FILE", help="the whole document instead of the tables; into a file"
    )
    arguments = parser.parse_args()
    tables = {}
    for cuts in ["even", "planned"] if arguments.cuts == "both" else [arguments.cuts]:
        rows = judged(arguments.panpipe, arguments.settings, cuts)
        tables[cuts] = {"rows": rows, "summary": summary(rows)}
    if arguments.json:
        text = json.dumps(tables, indent=1) + "\n"
        sys.stdout.write(text) if arguments.json == "-" else pathlib.Path(arguments.json).write_text(text)
        return
    for cuts, found in tables.items():
        whole = found["summary"]
        print(f"\n{cuts} cuts\n", *table(COLUMNS, map(cells, found["rows"])), sep="\n")
        print(
            f"\naccepted rows ({whole['rows']}): mean error {100 * whole['mean_error']:.1f} % (Pfeife's planner "
            f"{100 * whole['published_mean_error']:.1f} %), worst {100 * whole['worst_error']:.1f} %, bias {100 * whole['bias']:+.1f} %; "
            f"memory {100 * whole['mean_memory_error']:.1f} %"
        )


if __name__ == "__main__":
    main()
