"""What `panpipe estimate` answers, compared with what PyTorch's allocator counted (rows.csv)."""

import collections
import os
import statistics

from answers import Refused, answer, first_line, table

from . import scenario, study


def predicted(settings, program):
    """The answer's memory and metrics; a text where the scenario is refused."""
    described = scenario.describe(settings)
    try:
        return answer(program, "estimate", described) if described else "no scenario describes it"
    except Refused as fault:
        return first_line(fault)


def by_run(rows):
    found = collections.defaultdict(list)
    for row in rows:
        found[row["run"]].append(row)
    return found


def compared(path, pattern, program):
    """For each run: its name, group, outcome, bytes measured and predicted on the rank that needs most, and their parts."""
    settings, made = study.runs(), []
    for run, rows in by_run(study.read(path)).items():
        if pattern not in run or any(row["outcome"] not in ("ran", "out of memory") for row in rows):
            continue
        document = predicted(settings[run], program)
        one = {"run": run, "group": settings[run]["group"], "settings": settings[run]}
        one["ran"] = all(row["outcome"] == "ran" for row in rows)
        most = max(rows, key=lambda row: int(row["allocated"] or 0))
        one |= {"row": most, "allocated": int(most["allocated"]), "reserved": max(int(row["reserved"]) for row in rows)}
        if isinstance(document, str):
            made.append({**one, "refused": document})
            continue
        device = max(document["memory"], key=lambda each: each["peak_bytes"])
        figures = {what: document["metrics"][f"{what}_memory_bytes"] for what in ("allocated", "reserved", "peak")}
        made.append({**one, "predicted": figures, "peak": figures["peak"], "parts": device["parts"]})
    return made


def error(one, what="allocated"):
    """In %. cuBLAS's workspace is in the study's context, and in what was measured."""
    context = one["parts"].get("context", 0)
    return 100 * ((one["predicted"][what] + context) / one[what] - 1)


def by_group(runs):
    groups = collections.defaultdict(list)
    for one in runs:
        groups[one["group"]].append(one)
    return sorted(groups.items())


def cells(name, errors, runs):
    worst = max(range(len(errors)), key=lambda i: abs(errors[i]))
    sizes = [abs(each) for each in errors]
    means = f"{statistics.mean(sizes):.1f}", f"{statistics.median(sizes):.1f}", f"{statistics.mean(errors):+.1f}"
    return name, len(errors), *means, f"{errors[worst]:+.1f}", runs[worst]["run"]


def table_of_errors(title, runs, what):
    rows = [cells(name, [error(one, what) for one in members], members) for name, members in [*by_group(runs), ("all", runs)]]
    print(f"\n{title}\n", *table(["kind", "runs", "mean", "median", "bias", "worst", "of the run"], rows), sep="\n")


def table_of_parts(runs):
    """Static parts are known exactly on both sides; what is left is activations and temporaries."""
    rows = []
    for name, members in by_group(runs):
        apart = {"parameters": "parameters", "optimizer": "states"}
        known = [[one["parts"][ours] - int(one["row"][theirs]) for ours, theirs in apart.items()] for one in members]
        rest = [one["peak"] - one["allocated"] - sum(each) for one, each in zip(members, known)]
        means = [f"{statistics.mean(each) / 2**20:+.0f}" for each in (*zip(*known), rest)]
        rows.append((name, *means, f"{statistics.mean(one['allocated'] for one in members) / 2**20:.0f}"))
    columns = ["kind", "parameters", "states", "everything else", "of allocated"]
    print("\nPredicted - measured in MiB, means by kind of run\n", *table(columns, rows), sep="\n")


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
