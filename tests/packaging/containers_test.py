#!/usr/bin/env python3
"""The Dockerfile and the Apptainer definition agree, copy what exists, and run targets that the Makefile has.

No container engine is needed; tools/try-container runs their commands in bare systems."""

import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "containers"))
import stages  # noqa: E402

problems = []
docker, apptainer = stages.dockerfile(), stages.apptainer()
if len(docker) != 2 or docker != apptainer:
    problems.append(f"the two files differ:\n  {docker}\n  {apptainer}")
targets = set(re.findall(r"^([a-z-]+):", (root / "Makefile").read_text(), re.M))
made = {word for stage in docker for command in stage["commands"] for word in re.findall(r"^make (\S+)", command)}
if "setup" not in made or not made <= targets:
    problems.append(f"they run make {sorted(made)}; setup must be among them, and the Makefile has {sorted(targets)}")
for number, stage in enumerate(docker):
    for source, _, origin in stage["copies"]:
        # From another stage comes only what a command of it has made there.
        earlier = " ".join(docker[number - 1]["commands"]) if origin else ""
        if origin and not re.search(rf"(^| ){re.escape(source)}( |$)", earlier):
            problems.append(f"{source} is copied from stage {origin}, where no command makes it")
        if not origin and not (root / source).exists():
            problems.append(f"{source} is copied but does not exist")
ignored = set((root / "containers" / "Dockerfile.dockerignore").read_text().split())
# What git ignores and is large must not be sent to the engine.
if not {"build", ".venv", "out"} <= ignored:
    problems.append(f"build, .venv and out must be ignored: {sorted(ignored)}")
print("\n".join(problems) or "the container files agree")
sys.exit(1 if problems else 0)
