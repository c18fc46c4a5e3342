#!/usr/bin/env python3
"""Holds the outputs that documents show against what the programs print now.

Two marks in a Markdown file:
    <!-- output: COMMAND -->      the ```text block that follows is what COMMAND prints (stdout and stderr)
    <!-- step: ARGUMENTS -->V<!-- /step -->    V is the step time that `panpipe ARGUMENTS --json` gives
With --update the documents are rewritten instead.
"""
import json
import os
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parents[2]
OUTPUT = re.compile(r"(<!-- output: (.+?) -->\n+```text\n)(.*?)(```)", re.S)
STEP = re.compile(r"(<!-- step: (.+?) -->)(.*?)(<!-- /step -->)", re.S)


def run(command, environment):
    done = subprocess.run(["bash", "-c", command], cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    return done.stdout


def step_text(arguments, environment):
    step = json.loads(run(f"panpipe {arguments} --json", environment))["metrics"]["step_time_s"]
    for unit, name in ((1, "s"), (1e-3, "ms"), (1e-6, "us")):
        if step >= 0.99995 * unit:
            return f"{step / unit:#.4g} {name}"
    return f"{step * 1e9:#.4g} ns"


def main():
    update = "--update" in sys.argv
    bin_folder = next(a for a in sys.argv[1:] if not a.startswith("--"))
    environment = dict(os.environ, PATH=f"{os.path.abspath(bin_folder)}{os.pathsep}{os.environ['PATH']}", NO_COLOR="1")
    stale, shown = [], 0
    for file in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        text = file.read_text(encoding="utf-8")

        def check(kind, make):
            def replace(match):
                nonlocal shown
                shown += 1
                now = make(match.group(2), environment)
                if now != match.group(3):
                    stale.append(f"{file.relative_to(root)}: {kind} of `{match.group(2)}` is stale; it is now\n{now}")
                return match.group(1) + now + match.group(4)
            return replace

        new = STEP.sub(check("the step time", step_text), OUTPUT.sub(check("the output", run), text))
        if update and new != text:
            file.write_text(new, encoding="utf-8")
    if update:
        print(f"{len(stale)} of {shown} outputs rewritten")
        return 0
    print("\n".join(stale) + "\nrun tests/documents/check_outputs.py --update BIN_FOLDER" if stale else f"{shown} outputs are what the programs print")
    return 1 if stale or shown == 0 else 0


sys.exit(main())
