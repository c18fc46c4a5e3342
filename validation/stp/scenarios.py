"""Scenarios of the STP study, and what their documents state."""

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from answers import answer_all, table  # noqa: E402, F401 (for the studies)

PUBLISHED = json.load(open(os.path.join(HERE, "published.json"), encoding="utf-8"))
SCHEDULES = PUBLISHED["schedules"]


def stage_starts(layers, stages):
    """First layer of every stage after the first: as many layers each, the last two fewer (section 5.1 of the paper)."""
    each = -(-(layers + 2) // stages)
    return [each * stage for stage in range(1, stages)]


def scenario(configuration, name, microbatches, /, **changes):
    """The text of a scenario. `changes` replace lines by their key: cluster="...", transfers="{...}"."""
    c = configuration
    model = PUBLISHED["models"][c["model"]]
    starts = stage_starts(model["layers"], 2 * c["pipeline"])
    dimensions = ", ".join(f"{key}: {value}" for key, value in model.items())
    lines = {
        "panpipe": 1,
        "cluster": "clusters/a800x8-x4.yaml",
        "workload": f"{{model: llama, {dimensions}, sequence: {c['sequence']}}}",
        "batch": f"{{micro: {c['micro']}, microbatches: {microbatches}}}",
        "precision": "bf16",
        "parallel": f"{{pipeline: {c['pipeline']}, tensor: {c['tensor']}}}",
        "schedule": f"{{name: {name}, stages_per_rank: 2}}" if name == "interleaved-1f1b" else f"{{name: {name}}}",
        "partition": "[" + ", ".join(f"h.{start}" for start in starts) + "]",
        "recompute": "none",
        "optimizer": "adam",
        "framework": "stp",
        "trailing_collectives": "overlapped",
    }
    lines.update(changes)
    return "".join(f"{key}: {value}\n" for key, value in lines.items() if value is not None)


def predict_all(program, texts, verb="estimate"):
    return answer_all(program, verb, texts)


def throughput(document):
    return document["metrics"]["samples_per_s"]


def activations_gib(document):
    """Peak of the activations over the ranks: what is allocated at the peak and is neither state nor buffers."""
    return max(device["parts"].get("activations", 0) for device in document["memory"]) / 2**30
