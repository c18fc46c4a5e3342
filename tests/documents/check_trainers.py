#!/usr/bin/env python3
"""Fails when the table of docs/trainers.md differs from what `panpipe list trainers` knows."""

import json
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parents[2]


def words(cell):
    return re.findall(r"`([^`]+)`", cell)


def rows_of_the_page():
    rows = {}
    for line in (root / "docs/trainers.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 5:
            rows[words(cells[0])[0]] = (words(cells[1]), cells[2] == "yes", cells[3] == "yes", words(cells[4])[-1])
    return rows


def rows_of_the_program(panpipe):
    listed = json.loads(subprocess.run([panpipe, "list", "trainers", "--json"], check=True, capture_output=True).stdout)
    return {one["name"]: (one["aliases"], one["imported"], one["exported"], one["framework"]) for one in listed["items"]}


def main():
    page, program = rows_of_the_page(), rows_of_the_program(sys.argv[1])
    problems = [
        f"docs/trainers.md: {name} is {page.get(name, 'not there')}, and `panpipe list trainers` says {program.get(name, 'nothing')}"
        for name in sorted(page.keys() | program.keys())
        if page.get(name) != program.get(name)
    ]
    print("\n".join(problems) or f"{len(program)} trainers as the program lists them")
    return 1 if problems or not program else 0


sys.exit(main())
