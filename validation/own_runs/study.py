#!/usr/bin/env python3
"""Holds predictions from a profile against measured steps on this machine: profile, predict, run, compare, several times over.

    validation/own_runs/study.py                                   # ten combinations of model, schedule, ranks and microbatch
    validation/own_runs/study.py --models gpt --schedules all      # one model under every schedule that exists at this size
    validation/own_runs/study.py --only 1,2                        # the first two; figures stay in --out, where a later call adds others
    validation/own_runs/study.py --only none --record validation/measured   # keeps the figures that are there, with machine and date

A round profiles each model once and then runs its combinations. A combination's prediction is the mean over the rounds, its measurement that of all
steps without the eighth at either end, as in a profile. The spread is that of all measured steps of a combination, (upper - lower quartile) / median, or that of its
predictions over the rounds where that is larger; a difference inside it is no error. Prints a table in Markdown; everything else is written to --out, where a combination's two timelines lie side by side.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILT_IN = {
    "gpt": "{model: gpt, layers: 4, hidden: 256, heads: 4, vocabulary: 2048, sequence: 128, tied_embedding: false}",
    "llama": "{model: llama, layers: 4, hidden: 256, heads: 4, ffn: 688, vocabulary: 2048, sequence: 128, tied_embedding: false}",
    "bert": "{model: bert, layers: 4, hidden: 256, heads: 4, vocabulary: 2048, sequence: 128}",
}
# Arguments of tools/export_model.py.
EXPORTED = {
    "exported GPT": ["validation.own_runs.models:Gpt", "--input", "128", "--tokens", "2048"],
    "exported U-Net": ["validation.own_runs.models:UNet", "--input", "3,32,32", "--loss", "mse"],
}
# Model, schedule, ranks, samples a microbatch, microbatches.
COMBINATIONS = [
    ("gpt", "1f1b", 2, 2, 8),
    ("gpt", "zb-h1", 2, 2, 8),
    ("gpt", "gpipe", 2, 1, 8),
    ("gpt", "1f1b", 1, 4, 4),
    ("llama", "1f1b", 2, 2, 8),
    ("llama", "interleaved-1f1b", 2, 2, 8),
    ("bert", "1f1b", 2, 4, 8),
    ("bert", "zb-v", 2, 4, 8),
    ("exported GPT", "1f1b", 2, 4, 8),
    ("exported U-Net", "1f1b", 2, 8, 8),
]
SCENARIO = """panpipe: 1
cluster: {{devices: {ranks}, memory: 8 GiB, link: {{latency: 50 us, bandwidth: 2 GB/s}}}}
workload: {workload}
batch: {{micro: {micro}, microbatches: {microbatches}}}
schedule: 1f1b
optimizer: adam
"""


def call(command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with exit code {done.returncode}")
    return done.stdout


def every_schedule(panpipe, ranks, microbatches):
    """Names of the families that exist for this many ranks and microbatches."""
    listing = call([panpipe, "schedule", "--list"])
    names = [line.split()[0] for line in listing.splitlines() if line and not line[0].isspace()]
    sizes = ["--ranks", str(ranks), "--microbatches", str(microbatches)]
    return [
        name
        for name in names
        if subprocess.run([str(panpipe), "schedule", name, *sizes], capture_output=True, check=False).returncode == 0
    ]


def mean_action_error(comparison):
    """Of |predicted - measured| over passes, weighted by what was measured; and the median over the classes of passes."""
    rows = [row for row in comparison["actions"] if row["lane"] == "compute" and row["stage"] >= 0 and row["count_b"] > 0]
    off = sum(abs(row["mean_a_s"] - row["mean_b_s"]) * row["count_b"] for row in rows)
    each = [abs(row["mean_a_s"] / row["mean_b_s"] - 1) for row in rows if row["mean_b_s"] > 0]
    return off / max(1e-12, sum(row["mean_b_s"] * row["count_b"] for row in rows)), statistics.median(each)


def stem_of(model, ranks, micro):
    return f"{model.replace(' ', '-')}-{ranks}x{micro}"


class Study:
    def __init__(self, options):
        self.options = options
        self.panpipe = pathlib.Path(options.bin).resolve() / "panpipe"
        self.out = pathlib.Path(options.out).resolve()
        self.out.mkdir(parents=True, exist_ok=True)

    def kept(self, combination):
        """Where a combination's figures stay between calls."""
        return self.out / f"row-{'-'.join(map(str, combination)).replace(' ', '_')}.json"

    def workload(self, model, micro):
        if model in BUILT_IN:
            return BUILT_IN[model]
        archive = self.out / f"{model.replace(' ', '-')}-{micro}.pt2"
        if not archive.exists():
            call([ROOT / ".venv/bin/python", ROOT / "tools/export_model.py", *EXPORTED[model], "--micro", micro, "-o", archive])
        return f"{{pt2: {archive}}}"

    def tell(self, verb, *words, settings=(), **options):
        """Returns the output of `panpipe VERB WORDS`; an option that is True has no value."""
        words = [*words, *(word for setting in settings for word in ("--set", setting))]
        for name, value in options.items():
            words += ["-" * min(2, len(name)) + name.replace("_", "-"), *([] if value is True else [value])]
        return call([self.panpipe, verb, *words])

    def scenario(self, stem, model, ranks, micro, microbatches, more=""):
        """A scenario of this name in the folder."""
        path = self.out / f"{stem}.yaml"
        text = SCENARIO.format(ranks=ranks, workload=self.workload(model, micro), micro=micro, microbatches=microbatches)
        path.write_text(text + more, encoding="utf-8")
        return path

    def profile(self, scenario, again=0, **options):
        """A fresh profile of a scenario."""
        profile = scenario.with_name(f"{scenario.stem}-profile-{again}.yaml")
        self.tell("profile", scenario, o=profile, seconds=self.options.seconds, **options)
        return profile

    def measure(self, scenario, folder, **options):
        """Trains the steps that are asked for, behind two more, into a folder; the document of the result."""
        same = {"transport": self.options.transport, "steps": self.options.steps, "warmup": 2, "no_progress": True}
        self.tell("run", scenario, o=folder, **same, **options)
        return json.loads((folder / "result.json").read_text(encoding="utf-8"))

    def compare(self, scenario, profile, schedule, again):
        """Predicts and runs; returns the output of `panpipe compare` and of the run."""
        settings = [f"profile={profile}", f"schedule={schedule}"]
        stem = f"{scenario.stem}-{schedule}-{again}"
        predicted, measured = self.out / f"{stem}-predicted", self.out / f"{stem}-measured"
        self.tell("estimate", scenario, settings=settings, o=predicted)
        result = self.measure(scenario, measured, settings=settings)
        comparison = json.loads(self.tell("compare", predicted, measured, json=True, o=self.out / f"{stem}.json"))
        metrics = {row["metric"]: row for row in comparison["metrics"]}
        weighted, median = mean_action_error(comparison)
        return {
            "predicted_s": metrics["step_time_s"]["a"],
            "measured_s": metrics["step_time_s"]["b"],
            "steps_s": [step["step_time_s"] for step in result["repetitions"]],
            "bubble_predicted": metrics["bubble_step"]["a"],
            "bubble_measured": metrics["bubble_step"]["b"],
            "passes_off": weighted,
            "passes_off_median": median,
            "peak_predicted": metrics["peak_memory_bytes"]["a"],
            "peak_measured": metrics["peak_memory_bytes"]["b"],
            "context": result["context"],
        }

    def run(self, combinations):
        """One list of rounds per combination."""
        rounds = {combination: [] for combination in combinations}
        for again in range(self.options.rounds):
            profiles = {}
            for combination in combinations:
                model, schedule, ranks, micro, microbatches = combination
                key = (model, ranks, micro, microbatches)
                if key not in profiles:
                    scenario = self.scenario(stem_of(*key[:3]), *key)
                    asked = {"ranks": self.options.profile_ranks or ranks, "transport": self.options.transport}
                    profiles[key] = scenario, self.profile(scenario, again, **asked)
                rounds[combination].append(self.compare(*profiles[key], schedule, again))
                print(
                    f"round {again + 1}: {model} {schedule}: {rounds[combination][-1]['predicted_s']:.4f} s predicted, "
                    f"{rounds[combination][-1]['measured_s']:.4f} s measured",
                    file=sys.stderr,
                    flush=True,
                )
        return rounds


def trimmed_mean(values):
    """Without the eighth at either end: as `panpipe profile` takes its samples."""
    cut = len(values) // 8
    return statistics.mean(sorted(values)[cut : len(values) - cut])


def summary(combination, rounds):
    model, schedule, ranks, micro, microbatches = combination
    middle = lambda key: statistics.median(each[key] for each in rounds)
    steps = sorted(step for each in rounds for step in each["steps_s"])
    quartiles = statistics.quantiles(steps, n=4) if len(steps) > 3 else [steps[0], steps[0], steps[-1]]
    row = {"model": model, "schedule": schedule, "ranks": ranks, "micro": micro, "microbatches": microbatches}
    row |= {"rounds": len(rounds), "steps": len(steps)}
    row |= {key: middle(key) for key in rounds[0] if key not in ("steps_s", "context")}
    row |= {"predicted_s": statistics.mean(each["predicted_s"] for each in rounds), "measured_s": trimmed_mean(steps)}
    spread = max(each["predicted_s"] for each in rounds) - min(each["predicted_s"] for each in rounds)
    row["predicted_spread"] = spread / row["predicted_s"]
    row["spread"] = max((quartiles[2] - quartiles[0]) / statistics.median(steps), row["predicted_spread"])
    row["difference"] = row["predicted_s"] / row["measured_s"] - 1
    row["peak_difference"] = row["peak_predicted"] / row["peak_measured"] - 1
    return row


def table(rows):
    lines = [
        "| model | schedule | ranks | micro | step predicted | measured | spread | difference | bubble predicted | measured | passes off by | peak predicted | measured | difference |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row['model']} | {row['schedule']} | {row['ranks']} | {row['micro']} | {row['predicted_s'] * 1e3:.1f} ms | {row['measured_s'] * 1e3:.1f} ms | {row['spread']:.1%} "
            f"| {row['difference']:+.1%} | {row['bubble_predicted']:.1%} | {row['bubble_measured']:.1%} | {row['passes_off']:.1%} "
            f"| {row['peak_predicted'] / 2**20:.1f} MiB | {row['peak_measured'] / 2**20:.1f} MiB | {row['peak_difference']:+.1%} |"
        )
    errors, peaks = [abs(row["difference"]) for row in rows], [abs(row["peak_difference"]) for row in rows]
    lines.append("")
    lines.append(
        f"Step time: {statistics.mean(errors):.1%} off on average, {max(errors):.1%} at worst, spread {statistics.mean(row['spread'] for row in rows):.1%} on average. "
        f"Passes: {statistics.median(row['passes_off_median'] for row in rows):.1%} (median). Peak memory: {statistics.mean(peaks):.1%} on average, {max(peaks):.1%} at worst."
    )
    return "\n".join(lines)


def machine():
    facts = pathlib.Path("/proc/cpuinfo")
    names = re.findall(r"^model name\s*: *(.*)$", facts.read_text(encoding="utf-8"), re.M) if facts.exists() else []
    return names[0] if names else platform.processor() or platform.machine()


def record(folder, stem, kept, text):
    """Keeps figures as a document, and as a page with where they were measured above its text."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{stem}.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    where = f"Measured on {kept['date']}: {kept['machine']}, {kept['cores']} cores"
    (folder / f"{stem}.md").write_text(where + text + "\n", encoding="utf-8")


def measured_here(schema, options):
    """Where and how figures of today come about."""
    return {
        "schema": schema,
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "cores": len(os.sched_getaffinity(0)),
        "transport": options.transport,
    }


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--bin", default="build/release/bin", help="folder of the programs")
    arguments.add_argument("--out", default="out/own_runs", help="folder for profiles and results")
    arguments.add_argument("--ranks", type=int, default=2, help="with --models")
    arguments.add_argument("--transport", default="gloo")
    arguments.add_argument("--steps", type=int, default=10)
    arguments.add_argument("--seconds", type=int, default=5, help="of profiling, for each profile")
    arguments.add_argument(
        "--profile-ranks",
        type=int,
        help="profile with so many (default: as many as run); 1: one device predicts several, links from the scenario",
    )
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument(
        "--only", help="of the ten combinations these, by number from 1: 1,4 (none: print what earlier calls left in --out)"
    )
    arguments.add_argument("--models", help="instead of the ten combinations: these models,")
    arguments.add_argument(
        "--schedules",
        default="gpipe,1f1b,zb-h1",
        help="under these schedules (all: every one), two samples a microbatch, eight microbatches",
    )
    arguments.add_argument("--record", help="folder in which the figures are kept, named by date and machine")
    options = arguments.parse_args()
    study = Study(options)
    combinations = COMBINATIONS
    if options.models:
        schedules = (
            every_schedule(study.panpipe, options.ranks, 8) if options.schedules == "all" else options.schedules.split(",")
        )
        combinations = [(model, schedule, options.ranks, 2, 8) for model in options.models.split(",") for schedule in schedules]
    if options.only and not options.models:
        numbers = [] if options.only == "none" else [int(word) for word in options.only.split(",")]
        combinations = [COMBINATIONS[number - 1] for number in numbers]
    rounds = study.run(combinations)
    for combination in combinations:
        kept = summary(combination, rounds[combination]) | {"context": rounds[combination][0]["context"]}
        study.kept(combination).write_text(json.dumps(kept), encoding="utf-8")
    if options.only and not options.models:
        combinations = [combination for combination in COMBINATIONS if study.kept(combination).exists()]
    rows = [json.loads(study.kept(combination).read_text(encoding="utf-8")) for combination in combinations]
    contexts = [row.pop("context") for row in rows]
    print(table(rows))
    if options.record:
        kept = measured_here("panpipe-own-runs/1", options)
        kept |= {"version": contexts[0].get("version"), "libraries": contexts[0].get("libraries"), "rows": rows}
        stem = f"{kept['date']}-{''.join(c if c.isalnum() else '-' for c in kept['machine'].lower()).strip('-')}"
        how = f", {options.transport}, one thread a rank; rounds and steps of each row are in the JSON beside this."
        record(options.record, stem, kept, f"{how}\n\n{table(rows)}")


if __name__ == "__main__":
    main()
