#!/usr/bin/env python3
"""Reads containers/Dockerfile and containers/panpipe.def as lists of stages: what each copies and runs.

stages.py NUMBER   prints the commands of the Dockerfile's stage NUMBER, counted from 1, as a shell script"""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent


def lines_of(file):
    return [
        line.rstrip() for line in (HERE / file).read_text().splitlines() if line.strip() and not line.lstrip().startswith("#")
    ]


def dockerfile():
    """[{image, copies: [(source, target, stage or None)], commands}]; the arguments of all stages have the first one's value."""
    stages, arguments = [], {}
    for line in lines_of("Dockerfile"):
        word, rest = line.split(None, 1)
        if word == "ARG":
            name, _, value = rest.partition("=")
            if value:
                arguments[name] = value
        elif word == "FROM":
            stages.append({"image": rest.split()[0], "copies": [], "commands": [], "folder": "/", "arguments": arguments})
        elif word == "WORKDIR":
            stages[-1]["folder"] = rest
        elif word == "COPY":
            stage = re.match(r"--from=(\S+)\s+", rest)
            source, target = rest[stage.end() if stage else 0 :].split()
            stages[-1]["copies"].append((source, stages[-1]["folder"] if target == "." else target, stage and stage[1]))
        elif word == "RUN":
            stages[-1]["commands"].append(rest)
        elif word != "ENTRYPOINT":
            raise ValueError(f"Dockerfile: {word} is not known here")
    return stages


def apptainer():
    """The same of the Apptainer definition."""
    stages, section, origin = [], None, None
    for line in lines_of("panpipe.def"):
        if header := re.match(r"(Bootstrap|From|Stage): (\S+)$", line):
            if header[1] == "Bootstrap":
                stages.append({"image": None, "copies": [], "commands": [], "folder": "/", "arguments": {}})
            elif header[1] == "From":
                stages[-1]["image"] = header[2]
        elif line.startswith("%"):
            words = line[1:].split()
            section, origin = words[0], words[2] if words[1:2] == ["from"] else None
        elif section == "arguments":
            name, _, value = line.strip().partition("=")
            stages[-1]["arguments"][name] = value
        elif section == "files":
            source, target = line.split()
            stages[-1]["copies"].append((source, target, origin))
        elif section == "post":
            command = line.strip()
            if command.startswith("cd "):
                stages[-1]["folder"] = command[3:]
            elif command != "set -e" and not re.match(r"export (\w+)=\{\{ \1 \}\}$", command):
                stages[-1]["commands"].append(command)
    return stages


if __name__ == "__main__":
    chosen = dockerfile()[int(sys.argv[1]) - 1]
    print("set -e")
    for name, value in chosen["arguments"].items():
        print(f"export {name}={value}")
    print(f"cd {chosen['folder']}")
    print("\n".join(chosen["commands"]))
