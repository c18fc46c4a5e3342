"""What `panpipe estimate` answers, compared with what PyTorch's allocator counted (rows.csv)."""

import collections
import json
import os
import statistics
import tempfile

from . import scenario, study


def predicted(made, program, folder):
    """The answer's memory and metrics; a text where the scenario is refused."""
    ran = scenario.estimate(made, program, folder)
    if ran.returncode != 0:
        return ran.stderr.strip().splitlines()[0] if ran.stderr else "no answer"
    return json.loads(ran.stdout)


def by_run(rows):
    found = collections.defaultdict(list)
    for row in rows:
        found[row["run"]].append(row)
    return found


def compared(path, pattern, program):
    """For each run: its name, group, outcome, bytes measured and predicted on the rank that needs most, and their parts."""
    settings, made = study.runs(), []
    with tempfile.TemporaryDirectory() as folder:
        for run, rows in by_run(study.read(path)).items():
            if pattern not in run or any(row["outcome"] not in ("ran", "out of memory") for row in rows):
                continue
            described = scenario.describe(settings[run])
            answer = predicted(described, program, folder) if described else "no scenario describes it"
            one = {"run": run, "group": settings[run]["group"], "settings": settings[run]}
            one["ran"] = all(row["outcome"] == "ran" for row in rows)
            most = max(rows, key=lambda row: int(row["allocated"] or 0))
            one |= {"row": most, "allocated": int(most["allocated"]), "reserved": max(int(row["reserved"]) for row in rows)}
            if isinstance(answer, str):
                made.append({**one, "refused": answer})
                continue
            device = max(answer["memory"], key=lambda each: each["peak_bytes"])
            figures = {what: answer["metrics"][f"{what}_memory_bytes"] for what in ("allocated", "reserved", "peak")}
            made.append({**one, "predicted": figures, "peak": figures["peak"], "parts": device["parts"]})
    return made


def error(one, what="allocated"):
    """In %. cuBLAS's workspace is in the study's context, and in what was measured."""
    context = one["parts"].get("context", 0)
    return 100 * ((one["predicted"][what] + context) / one[what] - 1)


def line(name, errors, runs):
    worst = max(range(len(errors)), key=lambda i: abs(errors[i]))
    sizes = [abs(each) for each in errors]
    return (
        f"| {name} | {len(errors)} | {statistics.mean(sizes):.1f} | {statistics.median(sizes):.1f} | "
        f"{statistics.mean(errors):+.1f} | {errors[worst]:+.1f} | {runs[worst]['run']} |"
    )


def table_of_errors(title, runs, what):
    print(f"\n{title}\n\n| kind | runs | mean | median | bias | worst | of the run |\n|---|---|---|---|---|---|---|")
    groups = collections.defaultdict(list)
    for one in runs:
        groups[one["group"]].append(one)
    for name, members in [*sorted(groups.items()), ("all", runs)]:
        print(line(name, [error(one, what) for one in members], members))


def table_of_parts(runs):
    """Static parts are known exactly on both sides; what is left is activations and temporaries."""
    print("\nPredicted - measured in MiB, means by kind of run\n")
    print("| kind | parameters | states | everything else | of allocated |\n|---|---|---|---|---|")
    groups = collections.defaultdict(list)
    for one in runs:
        parts, row = one["parts"], one["row"]
        parameters = parts["parameters"] - int(row["parameters"])
        states = parts["optimizer"] - int(row["states"])
        rest = one["peak"] - one["allocated"] - parameters - states
        groups[one["group"]].append((parameters, states, rest, one["allocated"]))
    for name, members in sorted(groups.items()):
        means = [statistics.mean(each[i] for each in members) / 2**20 for i in range(4)]
        print(f"| {name} | {means[0]:+.0f} | {means[1]:+.0f} | {means[2]:+.0f} | {means[3]:.0f} |")


def largest(runs, count):
    print("\nThe largest errors, part by part in MiB\n")
    for one in sorted(runs, key=lambda each: -abs(error(each)))[:count]:
        print(
            f"{one['run']}: {error(one):+.1f} %, {one['predicted']['allocated'] / 2**20:.0f} for {one['allocated'] / 2**20:.0f}"
        )
        print("   predicted: " + ", ".join(f"{k} {v / 2**20:.0f}" for k, v in one["parts"].items() if v))
        peaks = {key: int(one["row"][f"{key}_3"] or 0) / 2**20 for key in ("forward", "backward", "optimizer", "kept")}
        print("   peaks: " + ", ".join(f"{key} {value:.0f}" for key, value in peaks.items()))
        for part in one["row"]["parts"].split("; ")[:8]:
            label, _, size = part.rpartition(" = ")
            print(f"   {int(size or 0) / 2**20:8.1f}  {label}")


def cards(runs):
    """Runs on cards of 2, 4, 8 GiB: which ran, and what the estimate predicted of them."""
    right = collections.Counter()
    for one in runs:
        says = one["peak"] <= one["settings"]["card_mib"] * 2**20
        right["ran" if one["ran"] else "out of memory", "fits" if says else "misfit"] += 1
    print("\nCards: " + ", ".join(f"{ran}, called {called}: {count}" for (ran, called), count in sorted(right.items())))


def report(path, pattern, root):
    program = os.environ.get("PANPIPE", root / "build/release/bin/panpipe")
    all_runs = compared(path, pattern, program)
    known = [one for one in all_runs if "peak" in one]
    for text, count in collections.Counter(one["refused"] for one in all_runs if "refused" in one).most_common():
        print(f"{count} runs are left out: {text}")
    ran = [one for one in known if one["ran"]]
    table_of_errors("Allocated, predicted / measured - 1 in %", ran, "allocated")
    table_of_errors("Reserved, predicted / measured - 1 in %", ran, "reserved")
    table_of_parts(ran)
    cards([one for one in known if one["group"] == "card"])
    largest(ran, 12)
