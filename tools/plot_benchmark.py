#!/usr/bin/env python3
"""Draws CPU time against a counter of Google Benchmark results, both axes logarithmic, with Matplotlib (tools/setup --notebooks).

tools/plot_benchmark.py RESULT.json -o PICTURE.svg [--filter linear] [--against tasks]
A series is everything before the first '/' of a benchmark's name; a dashed line of slope 1 (time in proportion to size)
goes through the last point of each.
"""

import argparse
import collections
import json

import matplotlib.pyplot as plot

SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("result", type=argparse.FileType(), help="JSON of a benchmark program (--benchmark_out)")
parser.add_argument("-o", "--output", required=True, help="picture to write")
parser.add_argument("--filter", default="linear", help="only benchmarks with this in their name")
parser.add_argument("--against", default="tasks", help="counter on the horizontal axis")
options = parser.parse_args()
series = collections.defaultdict(lambda: collections.defaultdict(list))
for row in json.load(options.result)["benchmarks"]:
    if row.get("run_type") != "aggregate" and options.filter in row["name"] and options.against in row:
        series[row["name"].split("/")[0]][row[options.against]].append(row["real_time"] * SECONDS[row["time_unit"]])
for name, times in series.items():
    sizes, best = zip(*sorted((size, min(each)) for size, each in times.items()))
    (line,) = plot.loglog(sizes, best, marker="o", label=name)
    plot.loglog(sizes, [best[-1] * size / sizes[-1] for size in sizes], "--", color=line.get_color(), alpha=0.6)
plot.xlabel(options.against)
plot.ylabel("seconds")
plot.grid(alpha=0.3)
plot.legend()
plot.savefig(options.output)
