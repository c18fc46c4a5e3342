"""What moves the estimate towards what was measured: corrections applied one after another to its parts, and the error behind each.

They are arithmetic on an answer's parts, to find causes; the model of memory itself does not contain them.
"""

import collections
import statistics

STEPS = (
    "the estimate",
    "parameters and states as they are",
    "gradients only where they exist",
    "AdamW's `foreach` temporaries",
    "autocast's copies of weights",
    "DDP's buckets",
    "a pipeline's results of all microbatches, and joined",
    "ZeRO 2: gathered parameters beyond the shards",
    "12 bytes per logit, for 14",
)


def autocast_copies(one):
    """Two bytes per weight that a product reads: autocast keeps them until the backward has read them."""
    s = one["settings"]
    if not s["precision"].startswith("amp"):
        return 0
    weights = int(one["row"]["parameters"]) / 4
    tied = s.get("tied", s["kind"] in ("gpt", "qwen", "bert"))
    table = 0 if tied or "vocabulary" not in s else s["vocabulary"] * s["hidden"]
    return 2 * (weights - table / (s["ranks"] if s["parallel"] == "tp" else 1))


def corrected(one, count):
    """The need after the first `count` corrections."""
    if count == 0:
        return one["peak"]
    s, parts = one["settings"], one["parts"]
    parameters, states = int(one["row"]["parameters"]), int(one["row"]["states"])
    passes = parts["activations"] + parts["temporary"] + parts["boundary buffers"]
    always = parameters + states + parts["context"]
    if count == 1:
        return always + parts["gradients"] + passes
    # .grad has the parameter's format, appears in the first backward and is freed behind the step.
    kept = parameters if s["microbatches"] > 1 else 0
    in_step = parameters
    if count >= 3 and s["optimizer"] == "adamw":
        in_step += parameters
    if count >= 4:
        passes += autocast_copies(one)
    if count >= 5 and s["parallel"] == "ddp":
        if s.get("bucket_view"):
            kept, in_step = 0, in_step - parameters
        passes, in_step = passes + parameters, in_step + parameters
    behind = 0
    if count >= 6 and s["parallel"] == "pp":
        results = s["microbatches"] * s["micro"] * s["sequence"] * s["vocabulary"] * (4 if s["precision"] == "fp32" else 2)
        passes, behind = passes + results, parameters + 2 * results
    if count >= 7 and s.get("zero") == 2:
        passes += parameters * s["ranks"] * (0.5 if s.get("mixed") else 1)
    if count >= 8 and s["loss"] == "plain" and "vocabulary" in s:
        passes -= 2 * s["micro"] * s["sequence"] * s["vocabulary"] / (s["ranks"] if s["parallel"] == "tp" else 1)
    return always + max(kept + passes, in_step, behind)


def report(runs):
    groups = collections.defaultdict(list)
    for one in runs:
        kind = one["settings"]["parallel"]
        groups["one device" if kind == "one" else kind].append(one)
    names = [*sorted(groups), "all"]
    groups["all"] = runs
    print("\nMean error of allocated in % (and its bias) after each correction, by parallelism\n")
    print("| correction | " + " | ".join(f"{name} ({len(groups[name])})" for name in names) + " |")
    print("|---|" + "---|" * len(names))
    for count, step in enumerate(STEPS):
        cells = []
        for name in names:
            errors = [100 * (corrected(one, count) / one["allocated"] - 1) for one in groups[name]]
            cells.append(f"{statistics.mean(map(abs, errors)):.1f} ({statistics.mean(errors):+.1f})")
        print(f"| {step} | " + " | ".join(cells) + " |")
