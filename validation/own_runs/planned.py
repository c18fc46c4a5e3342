#!/usr/bin/env python3
"""A plan for this machine against the equal split, both run: profile, plan, run in turns.

    validation/own_runs/planned.py [--bin build/release/bin] [--rounds 3]
    validation/own_runs/planned.py --only gpt --rounds 2      # again: more rounds of the same profile and plan, which lie in --out

Two ranks on this machine's CPU; a GPT of the builder and a U-Net exported from PyTorch, whose skip connections cross every cut. The
equal split gives both ranks as many movable units, under 1F1B. The plan is the best of `panpipe plan --method pfeife` over cuts and schedules.
A run's figure is the median of its steps, a row's the median over its rounds, which alternate; the spread is (largest - smallest) / median
over the rounds.
"""

import argparse
import json
import statistics
import sys

import study

MODELS = [("gpt", 2, 8), ("exported U-Net", 8, 8)]  # model, samples a microbatch, microbatches


def prepared(work, model, micro, microbatches):
    """The scenario, options for the equal split, for the plan, and the plan's own answer: made once, kept in the folder."""
    scenario = work.out / f"{study.stem_of(model, 2, micro)}.yaml"
    kept, plan, profile = (
        scenario.with_name(f"{scenario.stem}-{name}") for name in ("answer.json", "plan.yaml", "profile-0.yaml")
    )
    if not kept.exists():
        work.scenario(scenario.stem, model, 2, micro, microbatches)
        work.profile(scenario, ranks=2, transport=work.options.transport)
        settings = [f"profile={profile}", "schedule=auto"]
        kept.write_text(work.tell("plan", scenario, settings=settings, method="pfeife", json=True, o=plan), encoding="utf-8")
    answer = json.loads(kept.read_text(encoding="utf-8"))
    units = sum(len(stage["operators"]) for stage in answer["best"]["stages"])
    equal = {"settings": [f"profile={profile}", f"partition=[{units // 2}]"]}
    planned = {"plan": plan, "settings": [f"profile={profile}", "schedule=auto"]}
    return scenario, equal, planned, answer["best"]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--bin", default="build/release/bin", help="folder of the programs")
    arguments.add_argument(
        "--out", default="out/planned", help="folder for profiles, plans and results; what lies there is gone on with"
    )
    arguments.add_argument("--transport", default="gloo")
    arguments.add_argument("--steps", type=int, default=20)
    arguments.add_argument("--seconds", type=int, default=12, help="of profiling")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--only", help="one of the models: gpt, exported U-Net")
    options = arguments.parse_args()
    work = study.Study(options)
    print(
        "| model | equal split, predicted | measured | spread | plan | predicted | measured | spread | gain, measured |\n|---|---|---|---|---|---|---|---|---|"
    )
    for model, micro, microbatches in MODELS:
        if options.only not in (None, model):
            continue
        scenario, equal, planned, best = prepared(work, model, micro, microbatches)
        predicted = json.loads(work.tell("estimate", scenario, json=True, **equal))["metrics"]["step_time_s"]
        record = work.out / f"{scenario.stem}-times.json"
        times = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {"equal": [], "plan": []}
        for _ in range(options.rounds):
            again = len(times["plan"])
            for name, chosen in (("equal", equal), ("plan", planned)):
                result = work.measure(scenario, work.out / f"{scenario.stem}-{name}-{again}", **chosen)
                times[name].append(result["metrics"]["step_time_s"])
            record.write_text(json.dumps(times), encoding="utf-8")
            print(
                f"round {again + 1}: {model}: equal {times['equal'][-1]:.4f} s, plan {times['plan'][-1]:.4f} s",
                file=sys.stderr,
                flush=True,
            )
        before, after = statistics.median(times["equal"]), statistics.median(times["plan"])
        spread = {name: (max(seconds) - min(seconds)) / statistics.median(seconds) for name, seconds in times.items()}
        print(
            f"| {model} | {predicted * 1e3:.1f} ms | {before * 1e3:.1f} ms | {spread['equal']:.0%} | {best['schedule']['name']}, {len(best['stages'])} stages | {best['metrics']['step_time_s'] * 1e3:.1f} ms "
            f"| {after * 1e3:.1f} ms | {spread['plan']:.0%} | {1 - after / before:.1%} |",
            flush=True,
        )


main()
