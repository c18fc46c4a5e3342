#!/usr/bin/env python3
"""A plan for this machine against the equal split, both run: profile, plan, run in turns.

    validation/own_runs/planned.py [--bin build/release/bin] [--rounds 3]

Two ranks on this machine's CPU; a GPT of the builder and a U-Net exported from PyTorch, whose skip connections cross every cut. The
equal split gives both ranks as many movable units, under 1F1B. The plan is the best of `panpipe plan --method pfeife` over cuts and schedules.
"""
import argparse
import json
import statistics
import sys

import study

MODELS = [("gpt", 2, 8), ("exported U-Net", 8, 8)]  # model, samples a microbatch, microbatches


def words_of(settings):
    return [word for setting in settings for word in ("--set", setting)]


def run(work, scenario, words, name):
    out = work.out / name
    study.call([work.panpipe, "run", scenario, *words, "--transport", work.options.transport, "--steps", work.options.steps, "--warmup", 2, "--no-progress", "-o", out])
    return json.loads((out / "result.json").read_text(encoding="utf-8"))["metrics"]["step_time_s"]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--bin", default="build/release/bin", help="folder of the programs")
    arguments.add_argument("--out", default="out/planned", help="folder for profiles, plans and results")
    arguments.add_argument("--transport", default="gloo")
    arguments.add_argument("--steps", type=int, default=7)
    arguments.add_argument("--seconds", type=int, default=12, help="of profiling")
    arguments.add_argument("--rounds", type=int, default=3)
    options = arguments.parse_args()
    options.profile_ranks = None
    work = study.Study(options)
    print("| model | equal split, predicted | measured | plan | predicted | measured | gain, measured |\n|---|---|---|---|---|---|---|")
    for model, micro, microbatches in MODELS:
        scenario, profile = work.profile(model, 2, micro, microbatches, 0)
        common = [f"profile={profile}"]
        plan = work.out / f"{scenario.stem}-plan.yaml"
        answer = json.loads(study.call([work.panpipe, "plan", scenario, "--method", "pfeife", "--json", "-o", plan, "--set", common[0], "--set", "schedule=auto"]))
        units = sum(len(stage["operators"]) for stage in answer["best"]["stages"])
        equal = [*common, f"partition=[{units // 2}]"]
        chosen = [*common, "schedule=auto"]
        predicted = json.loads(study.call([work.panpipe, "estimate", scenario, "--json", *words_of(equal)]))["metrics"]["step_time_s"]
        times = {"equal": [], "plan": []}
        for again in range(options.rounds):
            times["equal"].append(run(work, scenario, words_of(equal), f"{scenario.stem}-equal-{again}"))
            times["plan"].append(run(work, scenario, ["--plan", plan, *words_of(chosen)], f"{scenario.stem}-planned-{again}"))
            print(f"round {again + 1}: {model}: equal {times['equal'][-1]:.4f} s, plan {times['plan'][-1]:.4f} s", file=sys.stderr, flush=True)
        before, after = statistics.median(times["equal"]), statistics.median(times["plan"])
        best = answer["best"]
        print(f"| {model} | {predicted * 1e3:.1f} ms | {before * 1e3:.1f} ms | {best['schedule']['name']}, {len(best['stages'])} stages | {best['metrics']['step_time_s'] * 1e3:.1f} ms "
              f"| {after * 1e3:.1f} ms | {1 - after / before:.1%} |", flush=True)


main()
