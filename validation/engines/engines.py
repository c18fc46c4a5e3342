#!/usr/bin/env python3
"""Where the estimate (idle links) and the simulation (shared links) differ, for every shipped cluster.

    python3 validation/engines/engines.py BIN/panpipe [--clusters NAME,...] [--shared] [--json FILE]

For each cluster a handful of plans of GPT-2 medium: the step by both engines, the difference, and the links on which transfers
waited for each other. Exits 1 when a simulation is shorter than its estimate, or differs where no link was shared."""

import argparse
import concurrent.futures
import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "validation"))
from answers import Refused, answer, first_line, table  # noqa: E402

CLUSTERS = os.path.join(ROOT, "scenarios", "clusters")
os.environ.setdefault("PANPIPE_DATA", os.path.join(ROOT, "scenarios"))  # the program reads the clusters whose sizes are read here
ROUNDING = 1e-9  # of the step: ends of flows are rounded to picoseconds, one after the other


def clusters():
    return sorted(name[:-5] for name in os.listdir(CLUSTERS) if name.endswith(".yaml"))


def plans(devices, per_node):
    """(name, parallel, schedule): pipelines, replicas of them, tensor groups, one model per device."""
    inside = min(devices, per_node, 8)
    deepest = min(devices, 8)
    found = []

    def add(name, pipeline, tensor=1, data=1, schedule="1f1b"):
        degrees = {"pipeline": pipeline, "tensor": tensor, "data": data}
        if pipeline * tensor * data <= devices and (degrees, schedule) not in [plan[1:] for plan in found]:
            found.append((name, degrees, schedule))

    add("pipeline", deepest)
    if devices >= 4:
        add("pipeline, interleaved", deepest // 2, schedule="{name: interleaved-1f1b, stages_per_rank: 2}")
        add("replicas of pipelines", devices // 2 if devices <= 8 else 8, data=2 if devices <= 8 else devices // 8)
        add("many short pipelines", 2, data=devices // 2)
        add(
            "tensor groups in a pipeline",
            devices // inside if devices > inside else 2,
            tensor=inside if devices > inside else inside // 2,
        )
    if devices > 8 and devices // inside >= 4:
        add("tensor groups, pipelines, replicas", devices // inside // 2, tensor=inside, data=2)
    add("data parallel", 1, data=devices)
    add("pipeline with offload", deepest, schedule="{name: 1f1b, offload: full}")
    return found


def scenario(cluster, parallel, schedule):
    degrees = ", ".join(f"{key}: {value}" for key, value in parallel.items())
    return f"""panpipe: 1
cluster: clusters/{cluster}.yaml
workload: {{model: gpt2-medium, sequence: 1024}}
batch: {{micro: 1, microbatches: {max(8, 2 * parallel['pipeline'])}}}
precision: {'fp32' if cluster.startswith('epyc') else 'fp16'}
parallel: {{{degrees}}}
schedule: {schedule}
recompute: none
optimizer: adam
framework: megatron
"""


def size_of(cluster):
    """Devices of a shipped cluster, and of one of its nodes; a file may be made from another one."""
    with open(os.path.join(CLUSTERS, cluster + ".yaml")) as file:
        text = file.read()
    base = re.search(r"^file: (\S+)\.yaml$", text, re.M)
    nodes, per_node = size_of(base.group(1)) if base else (1, 1)
    found = {key: int(value) for key, value in re.findall(r"^(nodes|devices_per_node): (\d+)$", text, re.M)}
    return found.get("nodes", nodes), found.get("devices_per_node", per_node)


def compare(program, cluster, name, parallel, schedule):
    text = scenario(cluster, parallel, schedule)
    row = {"cluster": cluster, "plan": name, "parallel": parallel, "schedule": schedule}
    try:
        estimate, simulation = (answer(program, verb, text) for verb in ("estimate", "simulate"))
    except Refused as fault:
        return {**row, "skipped": first_line(fault)}
    estimated, simulated = estimate["metrics"]["step_time_s"], simulation["metrics"]["step_time_s"]
    links = [
        {"link": use["resource"], "lost_s": use["lost_s"], "flows": use["flows"]}
        for use in simulation["contention"]
        if use["lost_s"] > ROUNDING * estimated
    ]
    links.sort(key=lambda use: -use["lost_s"])
    return {**row, "estimated_s": estimated, "simulated_s": simulated, "difference": simulated / estimated - 1, "links": links}


def faults(rows):
    for row in rows:
        if "skipped" in row:
            continue
        if row["difference"] < -ROUNDING:
            yield f"{row['cluster']}, {row['plan']}: the simulation is {-row['difference']:.2e} shorter than the estimate"
        if not row["links"] and abs(row["difference"]) > ROUNDING:
            yield f"{row['cluster']}, {row['plan']}: {row['difference']:.2e} apart though no link was shared"


def study(program, names):
    cases = []
    for cluster in names:
        nodes, per_node = size_of(cluster)
        cases += [(cluster, *plan) for plan in plans(nodes * per_node, per_node)]
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        return list(pool.map(lambda case: compare(program, *case), cases))


def degrees(parallel):
    return " ".join(
        f"{letter}{parallel[key]}" for letter, key in (("P", "pipeline"), ("T", "tensor"), ("D", "data")) if parallel[key] > 1
    )


def cells(row):
    link = row["links"][0] if row["links"] else None
    shared = f"{link['link']} ({link['flows']})" if link else "none is shared"
    difference = "0" if abs(row["difference"]) <= ROUNDING else f"{100 * row['difference']:+.2f} %"
    times = [f"{1e3 * row[key]:.1f} ms" for key in ("estimated_s", "simulated_s")]
    return [row["cluster"], row["plan"], degrees(row["parallel"]), *times, difference, shared]


def print_table(rows):
    columns = ["cluster", "plan", "degrees", "estimate", "simulation", "difference", "link that costs most (flows at once)"]
    print("\n".join(table(columns, [cells(row) for row in rows if "skipped" not in row])))
    for row in rows:
        if "skipped" in row:
            print(f"\nskipped: {row['cluster']}, {row['plan']}: {row['skipped']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="panpipe")
    parser.add_argument("--clusters", help="names, separated by commas; all that are shipped when left out")
    parser.add_argument("--shared", action="store_true", help="print only rows in which links are shared")
    parser.add_argument("--json", metavar="FILE", help="the rows as a document")
    arguments = parser.parse_args()
    rows = study(arguments.program, arguments.clusters.split(",") if arguments.clusters else clusters())
    print_table([row for row in rows if row.get("links") or not arguments.shared])
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(rows, file, indent=1)
            file.write("\n")
    found = list(faults(rows))
    for fault in found:
        print("fault:", fault, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
