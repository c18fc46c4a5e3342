#!/usr/bin/env python3
"""Runs a test of the page in node: in_node.py TEST.mjs PANPIPE. Exit code 77 with the reason where the page is not built; 1 where
PANPIPE_PAGE=required asks for it."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
WEB = ROOT / "build/web"


def reason_to_skip():
    if shutil.which("node") is None:
        return "node is not installed (make web brings it)"
    if not (WEB / "panpipe.wasm").exists() or not (WEB / "panpipe-node.mjs").exists():
        return "the page is not built (make web)"
    # Without the rules that run CMake again: with them a dry run goes no further than these.
    rules = (WEB / "build.ninja").read_text().split("\n\n")
    (WEB / "left.ninja").write_text(
        "\n\n".join(rule for rule in rules if not re.search(r"^build .*: (RERUN_CMAKE|VERIFY_GLOBS)", rule, re.M))
    )
    left = subprocess.run(["ninja", "-C", WEB, "-f", "left.ninja", "-n", "panpipe_engine"], text=True, capture_output=True).stdout
    return "" if "no work to do" in left else "the page is built from other sources (make web)"


def main():
    test, panpipe = sys.argv[1:]
    if reason := reason_to_skip():
        print(f"web: {reason}")
        return 1 if os.environ.get("PANPIPE_PAGE") == "required" else 77
    return subprocess.run(["node", pathlib.Path(__file__).with_name(test), ROOT, panpipe, WEB]).returncode


sys.exit(main())
