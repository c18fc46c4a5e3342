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


def words_of(settings):
    return [word for setting in settings for word in ("--set", setting)]


def run(work, scenario, words, name):
    out = work.out / name
    study.call(
        [
            work.panpipe,
            "run",
            scenario,
            *words,
            "--transport",
            work.options.transport,
            "--steps",
            work.options.steps,
            "--warmup",
            2,
            "--no-progress",
            "-o",
            out,
        ]
    )
    return json.loads((out / "result.json").read_text(encoding="utf-8"))["metrics"]["step_time_s"]


def prepared(work, model, micro, microbatches):
    """The scenario, overrides for the equal split, for the plan, and the plan's own answer: made once, kept in the folder."""
    stem = work.out / f"{model.replace(' ', '-')}-2x{micro}"
    kept, plan = stem.with_name(f"{stem.name}-answer.json"), stem.with_name(f"{stem.name}-plan.yaml")
    if kept.exists():
        scenario, profile = stem.with_suffix(".yaml"), stem.with_name(f"{stem.name}-profile-0.yaml")
    else:
        scenario, profile = work.profile(model, 2, micro, microbatches, 0)
        kept.write_text(
            study.call(
                [
                    work.panpipe,
                    "plan",
                    scenario,
                    "--method",
                    "pfeife",
                    "--json",
                    "-o",
                    plan,
                    "--set",
                    f"profile={profile}",
                    "--set",
                    "schedule=auto",
                ]
            ),
            encoding="utf-8",
        )
    answer = json.loads(kept.read_text(encoding="utf-8"))
    units = sum(len(stage["operators"]) for stage in answer["best"]["stages"])
    equal = words_of([f"profile={profile}", f"partition=[{units // 2}]"])
    chosen = ["--plan", plan, *words_of([f"profile={profile}", "schedule=auto"])]
    return scenario, equal, chosen, answer["best"]


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
    options.profile_ranks = None
    work = study.Study(options)
    print(
        "| model | equal split, predicted | measured | spread | plan | predicted | measured | spread | gain, measured |\n|---|---|---|---|---|---|---|---|---|"
    )
    for model, micro, microbatches in MODELS:
        if options.only not in (None, model):
            continue
        scenario, equal, chosen, best = prepared(work, model, micro, microbatches)
        predicted = json.loads(study.call([work.panpipe, "estimate", scenario, "--json", *equal]))["metrics"]["step_time_s"]
        record = work.out / f"{scenario.stem}-times.json"
        times = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {"equal": [], "plan": []}
        for _ in range(options.rounds):
            again = len(times["plan"])
            times["equal"].append(run(work, scenario, equal, f"{scenario.stem}-equal-{again}"))
            times["plan"].append(run(work, scenario, chosen, f"{scenario.stem}-planned-{again}"))
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
