#!/usr/bin/env python3
"""Tables 5 and 6 of arXiv 2510.27257 (Synergistic Tensor and Pipeline Parallelism) compared with Panpipe's predictions.

    python3 validation/stp/study.py BIN/panpipe [--simulate] [--json FILE]

Prints every row, who wins it, and the summary; exits 1 when the summary is outside its limits."""

import argparse
import json
import sys
from statistics import fmean

import scenarios
from scenarios import PUBLISHED, SCHEDULES

# What the study promises: winners of all rows, and means over rows.
LIMITS = {"step_time": 0.03, "gain_points": 2.0, "memory": 0.03, "simulated": 0.01}


def rows():
    for configuration in PUBLISHED["configurations"]:
        for microbatches, measured in configuration["throughput"].items():
            yield configuration, int(microbatches), dict(zip(SCHEDULES, measured))


def gain(values, schedule="stp"):
    """Points of throughput over interleaved 1F1B."""
    return 100 * (values[schedule] / values["interleaved-1f1b"] - 1)


def winner(values):
    return max(values, key=values.get)


def study(program, **changes):
    """Every row predicted: a document with rows, memory and summary."""
    cases = list(rows())
    texts = [scenarios.scenario(c, name, m, **changes) for c, m, _ in cases for name in SCHEDULES]
    documents = iter(scenarios.predict_all(program, texts))
    result = {"source": PUBLISHED["source"], "rows": [], "memory": []}
    for c, m, measured in cases:
        predicted, activations = {}, {}
        for name in SCHEDULES:
            document = next(documents)
            predicted[name] = scenarios.throughput(document)
            activations[name] = scenarios.activations_gib(document)
        place = {key: c[key] for key in ("model", "sequence", "tensor", "pipeline")}
        result["rows"].append({**place, "microbatches": m, "published": measured, "predicted": predicted})
        if m == int(next(iter(c["throughput"]))):  # one number of microbatches: the peak does not depend on it
            printed = dict(zip(SCHEDULES, c["activations_gib"]))
            result["memory"].append({**place, "published": printed, "predicted": activations})
    result["summary"] = summary(result)
    return result


def summary(result):
    table = result["rows"]
    # Of the step time, which is the inverse of the throughput.
    errors = [row["published"][name] / row["predicted"][name] - 1 for row in table for name in SCHEDULES]
    memory = [row["predicted"][name] / row["published"][name] - 1 for row in result["memory"] for name in SCHEDULES]
    return {
        "rows": len(table),
        "winners": sum(winner(row["published"]) == winner(row["predicted"]) for row in table),
        "step_time": fmean(map(abs, errors)),
        "step_time_worst": max(map(abs, errors)),
        "step_time_bias": fmean(errors),
        "gain_points": fmean(abs(gain(row["published"]) - gain(row["predicted"])) for row in table),
        "gain_points_worst": max(abs(gain(row["published"]) - gain(row["predicted"])) for row in table),
        "second": sum(gain(row["published"], "zb-v") * gain(row["predicted"], "zb-v") > 0 for row in table),
        "memory": fmean(map(abs, memory)),
        "memory_worst": max(map(abs, memory)),
    }


def place(row):
    return f"{row['model']} {row['sequence']:>4} TP{row['tensor']} PP{row['pipeline']}"


def show(result):
    print("Throughput, samples/s: published -> predicted (error of the step time); gain of STP over interleaved 1F1B")
    print(f"{'':22}{'m':>4}  {'1F1B-I':^22}{'ZB-V':^22}{'STP':^22}{'gain %':^16}")
    for row in result["rows"]:
        cells = ""
        for name in SCHEDULES:
            published, predicted = row["published"][name], row["predicted"][name]
            cells += f"  {published:5.2f} -> {predicted:5.2f} ({100 * (published / predicted - 1):+.1f})"
        print(
            f"{place(row):22}{row['microbatches']:>4}{cells}   {gain(row['published']):4.1f} -> {gain(row['predicted']):4.1f}"
            + ("" if winner(row["published"]) == winner(row["predicted"]) else f"  wins: {winner(row['predicted'])}")
        )
    print("\nPeak activations, GiB: published -> predicted")
    for row in result["memory"]:
        print(f"{place(row):26}" + "".join(f"  {row['published'][n]:3d} -> {row['predicted'][n]:5.1f}" for n in SCHEDULES))
    s = result["summary"]
    print(f"\nwinner as published: {s['winners']} of {s['rows']} rows; second place: {s['second']}")
    print(
        f"step time: mean error {100 * s['step_time']:.1f} %, worst {100 * s['step_time_worst']:.1f} %, "
        f"bias {100 * s['step_time_bias']:+.1f} %"
    )
    print(f"gain of STP: mean error {s['gain_points']:.1f} points, worst {s['gain_points_worst']:.1f}")
    print(f"activations: mean error {100 * s['memory']:.1f} %, worst {100 * s['memory_worst']:.1f} %")


def simulated(program):
    """The largest difference between the two engines, over a row of TP8 PP2, of TP4 PP4 and of TP4 PP8."""
    chosen = [PUBLISHED["configurations"][index] for index in (1, 2, 4)]
    texts = [scenarios.scenario(c, name, 64) for c in chosen for name in SCHEDULES]
    pairs = zip(scenarios.predict_all(program, texts), scenarios.predict_all(program, texts, "simulate"))
    return max(abs(scenarios.throughput(b) / scenarios.throughput(a) - 1) for a, b in pairs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--simulate", action="store_true", help="also simulate some rows and state the agreement")
    parser.add_argument("--json", help="write the study as a document")
    arguments = parser.parse_args()
    result = study(arguments.program)
    show(result)
    s = result["summary"]
    if arguments.simulate:
        s["simulated"] = simulated(arguments.program)
        print(f"simulated against estimated: at most {100 * s['simulated']:.2f} % apart")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
    outside = [key for key, limit in LIMITS.items() if s.get(key, 0) > limit]
    if s["winners"] < s["rows"]:
        outside.append("winners")
    if outside:
        print("outside the limits: " + ", ".join(outside), file=sys.stderr)
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main())
