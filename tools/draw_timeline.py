#!/usr/bin/env python3
"""Draws timelines of result documents as one SVG: a row per device, one block per pass, results below each other on one time axis.

tools/draw_timeline.py -o picture.svg "with bridges=out/a/result.json" "without=out/b/result.json"
"""

import argparse
import html
import json

COLOURS = {
    "F": "#4c78a8",
    "B": "#f58518",
    "I": "#f2b447",
    "W": "#b279a2",
    "R": "#9d9d9d",
    "OPT": "#54a24b",
    "REDUCE_GRAD": "#72b7b2",
}
NAMES = {
    "F": "forward",
    "B": "backward",
    "I": "input gradient",
    "W": "weight gradient",
    "OPT": "optimizer",
    "REDUCE_GRAD": "gradient reduction",
}
ROW, GAP, LEFT, WIDTH, TOP = 17, 34, 62, 1000, 26


def kind_of(action):
    letters = "".join(c for c in action if not c.isdigit() and c != ".")
    return letters if letters in COLOURS else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", metavar="TITLE=RESULT.json")
    parser.add_argument("-o", "--output", required=True)
    arguments = parser.parse_args()

    parts = []
    for item in arguments.results:
        title, _, path = item.rpartition("=")
        with open(path, encoding="utf-8") as file:
            parts.append((title or path, json.load(file)))
    longest = max(document["metrics"]["step_time_s"] for _, document in parts)
    scale, svg, used, y = WIDTH / longest, [], [], TOP
    for title, document in parts:
        metrics = document["metrics"]
        text = f"{title}: {metrics['step_time_s'] * 1e3:.1f} ms, bubble {metrics['bubble_step'] * 100:.0f} %"
        svg.append(f'<text x="{LEFT}" y="{y}" class="title">{html.escape(text)}</text>')
        y += 8
        devices = sorted({span["device"] for span in document["timeline"]})
        for row, device in enumerate(devices):
            svg.append(f'<text x="{LEFT - 8}" y="{y + row * ROW + 12}" class="device">GPU {device}</text>')
            svg.append(
                f'<rect x="{LEFT}" y="{y + row * ROW}" width="{metrics["step_time_s"] * scale:.1f}" height="{ROW - 3}" fill="#eeeeee"/>'
            )
        for span in document["timeline"]:
            kind = kind_of(span["action"])
            if span["lane"] not in ("compute", "data") or not kind:
                continue
            if kind not in used:
                used.append(kind)
            x, width = LEFT + span["start_s"] * scale, (span["end_s"] - span["start_s"]) * scale
            top = y + devices.index(span["device"]) * ROW
            svg.append(
                f'<rect x="{x:.2f}" y="{top}" width="{max(width, 0.4):.2f}" height="{ROW - 3}" fill="{COLOURS[kind]}" stroke="white" stroke-width="0.5"/>'
            )
            if width > 13 and span["microbatch"] is not None and span["microbatch"] >= 0:
                svg.append(f'<text x="{x + width / 2:.2f}" y="{top + 11}" class="number">{span["microbatch"]}</text>')
        y += len(devices) * ROW + GAP
    x = LEFT
    for kind in used:
        svg.append(
            f'<rect x="{x}" y="{y - 18}" width="12" height="12" fill="{COLOURS[kind]}"/><text x="{x + 17}" y="{y - 8}" class="device" text-anchor="start">{NAMES.get(kind, kind)}</text>'
        )
        x += 34 + 8 * len(NAMES.get(kind, kind))
    style = "text{font-family:system-ui,sans-serif;fill:#222}.title{font-size:14px;font-weight:600}.device{font-size:11px}.device:not([text-anchor]){text-anchor:end}.number{font-size:10px;text-anchor:middle;fill:white}"
    with open(arguments.output, "w", encoding="utf-8") as file:
        file.write(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 20} {y}" width="{LEFT + WIDTH + 20}" height="{y}">'
        )
        file.write(f"<style>{style}</style><rect width='100%' height='100%' fill='white'/>{''.join(svg)}</svg>\n")


main()
