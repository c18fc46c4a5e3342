#!/usr/bin/env python3
"""Holds the outputs that documents show against what the programs print now.

Five marks in a Markdown file:
    <!-- output: COMMAND -->      the ```text block that follows is what COMMAND prints (stdout and stderr)
    <!-- step: ARGUMENTS -->V<!-- /step -->    V is the step time that `panpipe ARGUMENTS --json` gives
    <!-- steps: VERB -->          a table follows; a row that links to a scenario (FILE.yaml) has in its second column the step time
                                  that `panpipe VERB FILE.yaml --json` gives
    <!-- picture: FILE: COMMAND -->  the picture that follows is FILE, which COMMAND writes
    <!-- same: PAGE, HEADING -->  the block that follows is the first block under that heading of PAGE
Each page has a folder of its own, with the files that its `cat > FILE << 'END'` lines write. With --update the documents are
rewritten instead; with --only PAGE (README.md, docs/tour.md) that page alone is looked at.
"""

import json
import pathlib
import re
import sys

from pages import ROOT, environment, pages, shell, shell_lines, workplace

OUTPUT = re.compile(r"(<!-- output: (.+?) -->\n+```text\n)(.*?)(```)", re.S)
STEP = re.compile(r"(<!-- step: (.+?) -->)(.*?)(<!-- /step -->)", re.S)
STEPS = re.compile(r"<!-- steps: (\w+) -->\n((?:\|.*\n)+)")
ROW = re.compile(r"^(\|[^|]*\]\(([^)\s]+\.yaml)\)[^|]*\| *)([^|]*?)( *\|.*)$", re.M)

PICTURE = re.compile(r"<!-- picture: (\S+): (.+?) -->\n!\[[^\]]*\]\(([^)]+)\)")
SAME = re.compile(r"(<!-- same: (\S+), (.+?) -->\n)(.*?\n)(?=\n)", re.S)


def step_text(arguments, folder, programs):
    step = json.loads(shell(f"panpipe {arguments} --json", folder, programs).stdout)["metrics"]["step_time_s"]
    for unit, name in ((1, "s"), (1e-3, "ms"), (1e-6, "us")):
        if step >= 0.99995 * unit:
            return f"{step / unit:#.4g} {name}"
    return f"{step * 1e9:#.4g} ns"


def renewed(file, folder, programs, stale, update):
    """The page's text as it would be now, and how many marks it has; what differs is added to `stale`. Pictures are updated at once."""
    shown = 0

    def now(kind, command, old, new):
        nonlocal shown
        shown += 1
        if new != old:
            stale.append(f"{file.relative_to(ROOT)}: {kind} of `{command}` is stale; it is now\n{new[:2000]}")
        return new

    def output(match):
        return (
            match.group(1)
            + now("the output", match.group(2), match.group(3), shell(match.group(2), folder, programs).stdout)
            + match.group(4)
        )

    def step(match):
        return (
            match.group(1)
            + now("the step time", match.group(2), match.group(3), step_text(match.group(2), folder, programs))
            + match.group(4)
        )

    def table(match):
        def row(cells):
            arguments = f"{match.group(1)} {(file.parent / cells.group(2)).resolve().relative_to(ROOT)}"
            return (
                cells.group(1)
                + now("the step time", arguments, cells.group(3), step_text(arguments, folder, programs))
                + cells.group(4)
            )

        return match.group(0).replace(match.group(2), ROW.sub(row, match.group(2)))

    def picture(match):
        drawn, stored = pathlib.Path(folder) / match.group(1), file.parent / match.group(3)
        printed = shell(match.group(2), folder, programs).stdout
        new = drawn.read_text(encoding="utf-8") if drawn.exists() else f"no picture: {printed}"
        now("the picture", match.group(2), stored.read_text(encoding="utf-8"), new)
        if update and drawn.exists():
            stored.write_text(new, encoding="utf-8")
        return match.group(0)

    def same(match):
        there = (ROOT / match.group(2)).read_text(encoding="utf-8")
        block = re.search(rf"^##+ {re.escape(match.group(3))}\n\n(.*?\n)(?=\n)", there, re.M | re.S).group(1)
        return match.group(1) + now("the block", f"{match.group(3)} of {match.group(2)}", match.group(4), block)

    text = file.read_text(encoding="utf-8")
    for command in shell_lines(text):
        if command.startswith("cat > "):
            shell(command, folder, programs)
    PICTURE.sub(picture, text)
    return SAME.sub(same, STEPS.sub(table, STEP.sub(step, OUTPUT.sub(output, text)))), shown


def main():
    arguments = sys.argv[1:]
    only = arguments[arguments.index("--only") + 1] if "--only" in arguments else None
    bin_folder = next(a for a in arguments if not a.startswith("--") and a != only)
    update, programs = "--update" in arguments, environment(bin_folder)
    stale, total = [], 0
    for file in pages():
        if only and str(file.relative_to(ROOT)) != only:
            continue
        with workplace() as folder:
            new, shown = renewed(file, folder, programs, stale, update)
        total += shown
        if update and new != file.read_text(encoding="utf-8"):
            file.write_text(new, encoding="utf-8")
    if update:
        print(f"{len(stale)} of {total} outputs rewritten")
        return 0
    print(
        "\n".join(stale) + "\nrun tests/documents/check_outputs.py --update BIN_FOLDER"
        if stale
        else f"{total} outputs are what the programs print"
    )
    return 1 if stale or total == 0 else 0


sys.exit(main())
