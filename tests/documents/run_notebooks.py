#!/usr/bin/env python3
"""Every notebook of notebooks/ is stored as it should be, and runs top to bottom with the package of the build.

    run_notebooks.py [--stored]     --stored: looks at the files alone
Exit code 77 (skipped, with the reason) where nbclient or the package is missing; PANPIPE_NOTEBOOKS=required makes that a failure.
"""

import json
import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import notebooks

SLOWEST_S = 180
LONGEST_LINE = 120


def stored_faults(path):
    """What is wrong with the file: a notebook is stored in nbformat 4.5 without outputs, so that a diff shows what people wrote."""
    document = json.loads(path.read_text(encoding="utf-8"))
    if (document["nbformat"], document["nbformat_minor"]) != (4, 5):
        yield "is not nbformat 4.5"
    if (
        set(document["metadata"]) - {"kernelspec", "language_info"}
        or document["metadata"].get("kernelspec", {}).get("name") != "python3"
    ):
        yield "has metadata other than the kernel python3 and its language"
    names = [cell["id"] for cell in document["cells"]]
    if len(set(names)) != len(names):
        yield "has two cells of one id"
    if not re.match(r"# \S", "".join(document["cells"][0]["source"])):
        yield "does not begin with a title"
    for cell in document["cells"]:
        if cell.get("outputs") or cell.get("execution_count") is not None:
            yield f"cell {cell['id']} is stored with outputs: jupyter nbconvert --clear-output --inplace {path.name}"
        if cell["metadata"]:
            yield f"cell {cell['id']} has metadata"
        lines = "".join(cell["source"]).splitlines()
        if not lines:
            yield f"cell {cell['id']} is empty"
        for line in lines:
            if len(line) > LONGEST_LINE:
                yield f"cell {cell['id']}: a line of {len(line)} characters: {line[:60]}..."


def main(arguments):
    files = notebooks.notebooks()
    faults = [f"{path.name} {fault}" for path in files for fault in stored_faults(path)]
    print("\n".join(faults) or f"{len(files)} notebooks are stored without outputs")
    if faults or not files:
        return 1
    if "--stored" in arguments:
        return 0
    if reason := notebooks.why_not():
        required = os.environ.get("PANPIPE_NOTEBOOKS") == "required"
        print(f"{'failed, notebooks must run here' if required else 'skipped'}: {reason}")
        return 1 if required else 77
    from nbclient.exceptions import CellExecutionError

    failed = 0
    for path in files:
        try:
            seconds = notebooks.run(path)
        except CellExecutionError as error:
            print(f"{path.name}: a cell failed\n{notebooks.plain(error)}")
            failed += 1
            continue
        print(f"{path.name}: {seconds:.0f} s")
        if seconds > SLOWEST_S:
            print(f"{path.name} takes longer than {SLOWEST_S} s")
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
