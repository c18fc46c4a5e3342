#!/usr/bin/env python3
"""Draws CPU time against a counter of Google Benchmark results, both axes logarithmic, as SVG.

tools/plot_benchmark.py RESULT.json -o PICTURE.svg [--filter linear] [--against tasks]
A series is everything before the first '/' of a benchmark's name; a dashed line of slope 1 (time in proportion to size)
goes through the last point of each.
"""

import argparse
import json
import math

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 440, 70, 130, 20, 50
COLOURS = ["#1f6fb2", "#d1602b", "#3a8f4d", "#8a4fa3"]
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def read(path, part, against):
    """{series: [(size, seconds)]}, the best of all repetitions, ascending."""
    with open(path, encoding="utf-8") as file:
        rows = json.load(file)["benchmarks"]
    best = {}
    for row in rows:
        if row.get("run_type") == "aggregate" or part not in row["name"] or against not in row:
            continue
        key = row["name"].split("/")[0], row[against]
        seconds = row["real_time"] * SECONDS[row["time_unit"]]
        best[key] = min(seconds, best.get(key, math.inf))
    series = {}
    for (name, size), seconds in sorted(best.items()):
        series.setdefault(name, []).append((size, seconds))
    return series


def text_of(seconds):
    unit, scale = next((u, s) for u, s in (("s", 1), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)) if seconds >= s * 0.999)
    return f"{seconds / scale:g} {unit}"


def draw(series, against):
    sizes = [size for points in series.values() for size, _ in points]
    times = [t for points in series.values() for _, t in points]
    x0, x1 = math.log10(min(sizes)) - 0.1, math.log10(max(sizes)) + 0.1
    y0, y1 = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))

    def place(size, seconds):
        x = LEFT + (math.log10(size) - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT)
        y = HEIGHT - BOTTOM - (math.log10(seconds) - y0) / (y1 - y0) * (HEIGHT - TOP - BOTTOM)
        return x, y

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for power in range(y0, y1 + 1):
        _, y = place(min(sizes), 10.0**power)
        out.append(
            f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
            f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{text_of(10.0**power)}</text>'
        )
    for power in range(math.ceil(x0), math.floor(x1) + 1):
        x, _ = place(10.0**power, times[0])
        out.append(
            f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#ddd"/>'
            f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{10**power:,}</text>'
        )
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">{against}</text>')
    for colour, (name, points) in zip(COLOURS, series.items()):
        last_size, last_time = points[-1]
        first = max(points[0][0], last_size * 10.0**y0 / last_time)
        ends = [place(first, last_time * first / last_size), place(last_size, last_time)]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in ends)
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-dasharray="4 4" opacity="0.6"/>')
        line = " ".join("{:.1f},{:.1f}".format(*place(*point)) for point in points)
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for point in points:
            x, y = place(*point)
            out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')
        x, y = ends[1]
        out.append(f'<text x="{x + 10:.1f}" y="{y + 4:.1f}" fill="{colour}">{name}</text>')
    return "\n".join(out + ["</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", help="JSON of a benchmark program (--benchmark_out)")
    parser.add_argument("-o", "--output", required=True, help="SVG file to write")
    parser.add_argument("--filter", default="linear", help="only benchmarks with this in their name")
    parser.add_argument("--against", default="tasks", help="counter on the horizontal axis")
    options = parser.parse_args()
    series = read(options.result, options.filter, options.against)
    if not series:
        parser.error(f"no benchmark in {options.result} has '{options.filter}' in its name and a counter '{options.against}'")
    with open(options.output, "w", encoding="utf-8") as file:
        file.write(draw(series, options.against))


if __name__ == "__main__":
    main()
