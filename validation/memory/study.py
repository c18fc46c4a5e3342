"""Runs the study: every run of runs.json in processes of its own on the stand-in GPU, a row for each rank in rows.csv."""

import csv
import json
import os
import pathlib
import traceback

from . import scenario
from .processes import in_processes

HERE = pathlib.Path(__file__).parent
COLUMNS = [
    *("run", "rank", "torch", "card_mib", "outcome", "allocated", "reserved", "start", "parameters", "states"),
    *(f"{what}_{step}" for step in (1, 2, 3) for what in ("forward", "backward", "optimizer", "kept", "reserved")),
    *("parts", "scenario"),
]
# Of every kind some, small ones: runs that are made again to see that they give the committed rows.
CHECKED = (
    *("precision-gpt-t-fp32", "precision-gpt-t-amp-bf16", "precision-gpt-t-bf16", "precision-bert-b-amp-bf16"),
    *("precision-vit-b-amp-bf16", "precision-unet-s-amp-bf16", "precision-mixtral-s-amp-bf16", "recompute-qwen-s-full"),
    *("optimizer-gpt-s-adamw-8bit", "loss-gpt-s-chunked-4", "ddp-gpt-s-x2", "fsdp2-gpt-m-x2-zero3-mixed"),
    *("tp-gpt-m-x2-adamw-loop", "pp-gpt-m-x2-1f1b-n4-b1-bf16", "card-gpt-m-2gib-b8"),
)

DEFAULTS = {
    "precision": "amp-bf16",
    "attention": "flash",
    "recompute": "none",
    "every": 1,
    "optimizer": "adamw",
    "loss": "plain",
    "parallel": "one",
    "ranks": 1,
    "microbatches": 1,
    "card_mib": 16384,
}


def runs():
    """Name of each run and its settings: those of its line over those of its model over the defaults."""
    listed = json.loads((HERE / "runs.json").read_text(encoding="utf-8"))
    return {
        line["run"]: {**DEFAULTS, **listed["models"][line["model"]], **{k: v for k, v in line.items() if k != "run"}}
        for line in listed["runs"]
    }


def measured(settings, rank, folder):
    try:
        from . import measure

        return measure.measure(settings, rank, folder)
    except Exception:
        traceback.print_exc()
        return {"rank": rank, "outcome": "failed: " + traceback.format_exc().strip().splitlines()[-1][:200]}


def run_one(settings):
    """Rows of all ranks."""
    card = {"STAND_IN_MEMORY_MIB": str(settings["card_mib"]), **settings.get("environment", {})}
    quiet = "MEMORY_STUDY_ERRORS" not in os.environ
    rows = in_processes(settings["ranks"], lambda rank, folder: measured(settings, rank, folder), card, quiet)
    return [row or {"rank": rank, "outcome": "ended without an answer"} for rank, row in enumerate(rows)]


def read(path):
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write(path, rows, columns=COLUMNS):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def row_of(name, settings, measured, torch_version):
    parts = "; ".join(f"{label} = {size}" for label, size in measured.pop("parts", {}).items())
    described = json.dumps(scenario.describe(settings), separators=(",", ":"))
    return {
        **measured,
        "run": name,
        "torch": torch_version,
        "card_mib": settings["card_mib"],
        "parts": parts,
        "scenario": described,
    }


def make(path, pattern, again):
    """Runs what `path` lacks of the runs whose name contains `pattern`, or all of these `again`. Yields (name, settings, rows)."""
    import torch

    from . import measure  # noqa: F401 (before the forks, so that every run finds it)

    rows, all_runs = read(path), runs()
    wanted = [name for name in all_runs if pattern in name]
    done = {row["run"] for row in rows if row["outcome"] in ("ran", "out of memory")}
    for name in wanted:
        if name in done and not again:
            continue
        measured = run_one(all_runs[name])
        fresh = [row_of(name, all_runs[name], row, torch.__version__) for row in measured]
        rows = [row for row in rows if row["run"] != name] + fresh
        order = {each: number for number, each in enumerate(all_runs)}
        rows = sorted((row for row in rows if row["run"] in order), key=lambda row: (order[row["run"]], int(row["rank"])))
        write(path, rows)
        yield name, all_runs[name], fresh


def check(path):
    """Runs CHECKED again. Yields (name, what differs from the rows of `path`): nothing where all is as committed."""
    import torch

    committed = {(row["run"], row["rank"]): row for row in read(path)}
    for name in CHECKED:
        differing = []
        for row in run_one(runs()[name]):
            known = committed[name, str(row["rank"])]
            if known["torch"] != torch.__version__:
                raise NotImplementedError(f"rows are of torch {known['torch']}, this is {torch.__version__}")
            for column in ("outcome", "allocated", "reserved", "parameters", "states"):
                if str(row.get(column, "")) != known[column]:
                    differing.append(f"rank {row['rank']}: {column} is {row.get(column)}, in {path.name} {known[column]}")
        yield name, differing
