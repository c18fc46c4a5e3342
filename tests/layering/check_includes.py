#!/usr/bin/env python3
"""Fails when a folder includes from a folder it may not know, when a file leaves out a header that only some systems bring along, and
when a namespace does not follow its folder. The first table below is the architecture; docs/architecture.md draws it."""

import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parents[2]

# What a cost asks.
PRICED = ["base", "schedule"] + [f"costmodel/{room}" for room in ("degrees", "cluster", "workload", "profile", "scenario")]
# folder -> folders of this project it may include from (besides itself). The longest matching name wins.
ALLOWED = {
    "base": [],
    "base/input": ["base"],
    "schedule": ["base"],
    "costmodel/memory": ["base"],
    "costmodel/run_cost": ["base"],
    "costmodel/cluster": ["base"],
    "costmodel/degrees": ["base"],
    "costmodel/workload": ["base", "costmodel/degrees"],
    "costmodel/profile": ["base", "costmodel/cluster"],
    "costmodel/scenario": [
        "base",
        "schedule",
        "costmodel/degrees",
        "costmodel/run_cost",
        "costmodel/cluster",
        "costmodel/workload",
        "costmodel/profile",
    ],
    "costmodel/cost": PRICED,
    "costmodel/plan": [*PRICED, "costmodel/cost"],
    "costmodel/lowering": [*PRICED, "costmodel/cost", "costmodel/plan", "costmodel/memory"],
    "costmodel/timeline": ["base", "schedule", "costmodel/degrees", "costmodel/run_cost", "costmodel/plan", "costmodel/lowering"],
    "costmodel/estimate": ["base", "schedule", "costmodel/degrees", "costmodel/plan", "costmodel/lowering", "costmodel/timeline"],
    "costmodel/prediction": ["base", "schedule", "costmodel"],
    "present/picture": ["base", "schedule", "costmodel/timeline"],
    "present/page": ["base", "schedule", "present/picture"],
    "present/result": ["base", "schedule", "costmodel", "present/picture"],
    "planner": ["base", "schedule", "costmodel"],
    "sim": ["base", "schedule", "costmodel"],
    "study/compare": ["base", "schedule", "costmodel", "present"],
    "study/sweep": ["base", "schedule", "costmodel", "present"],
    "study/cell_answer": ["base", "schedule", "costmodel", "present", "planner", "sim", "study/sweep"],
    "study/sizes": ["base", "schedule", "costmodel"],
    "study/largest": ["base", "schedule", "costmodel"],
    "study/arena": ["base", "schedule", "costmodel", "present"],
    "study/report": ["base", "schedule", "costmodel", "present", "study/compare"],
    "jobs": ["base", "schedule", "costmodel"],
    "validation": ["base", "schedule", "costmodel", "present"],
    "exec/engine": ["base", "schedule", "costmodel", "present/result", "exec"],
    "exec/launch": ["base", "schedule", "costmodel"],
    "exec": ["base", "schedule", "costmodel", "exec"],
    "app": ["base", "schedule", "costmodel", "present", "planner", "sim", "study", "jobs", "validation"],
    "cli": ["base", "schedule", "costmodel", "present", "planner", "sim", "study", "jobs", "exec/launch", "validation", "app"],
    "python": [
        "base",
        "schedule",
        "costmodel",
        "present",
        "planner",
        "sim",
        "study",
        "jobs",
        "exec/launch",
        "validation",
        "app",
        "cli",
    ],
    "web": ["base", "schedule", "costmodel", "present", "planner", "sim", "study", "jobs", "app"],
    "bench": ["base", "schedule", "costmodel", "present", "planner", "sim", "study", "jobs", "exec", "validation", "tests"],
    "tests": ["base", "schedule", "costmodel", "present", "planner", "sim", "study", "jobs", "exec", "validation", "app", "cli"],
}
# What everything speaks of is in panpipe itself, or in a namespace of a folder or file below it; every other folder has one of its name.
SHARED = ["base", "schedule", "costmodel"]
NO_NAMESPACE = ["bench", "tests"]  # programs: nothing includes them but themselves
# Third-party headers that only these folders may include.
FENCED = {
    r"simgrid/|xbt": ["sim"],
    r"torch/|ATen/|c10/|caffe2/": ["exec/engine", "tests/exec", "tests/stand_in_gpu", "bench/bench_exec.cpp"],
    r"nccl\.h|cuda|gloo/": ["exec/engine", "tests/stand_in_gpu"],
    r"yaml-cpp/": ["base/input/yaml_document.cpp"],
    r"toml\+\+/": ["jobs/toml_document.cpp"],
    r"nanobind/|Python\.h": ["python"],
    # Processes and shared memory, which a page has none of.
    r"sys/(mman|prctl|socket|syscall|wait)\.h|spawn\.h": [
        "sim/simgrid_module.cpp",
        "study/sweep",
        "exec",
        "cli",
        "python",
        "tests",
        "bench",
    ],
    r"CLI/": ["cli", "exec", "tests/exec"],
    r"thread|mutex|condition_variable|tbb/|oneapi/": [
        "base/parallel_for.cpp",
        "base/files/input_registry.cpp",
        "base/input/cached_document.cpp",
        "costmodel/cost/length_models.hpp",
        "costmodel/cost/site.hpp",
        "planner",
        "sim",
        "study",
        "exec",
        "validation",
        "app",
        "cli",
        "python",
        "tests",
        "bench",
    ],
}
# Names whose header other headers include on some systems and not on others: the file itself, or a header of this project that it
# includes, must name it.
NEEDED = {
    r"\bfmt::join\b": "fmt/ranges.h",  # fmt 11 moved it there from fmt/format.h
    r"\bstd::(sort|stable_sort|find|find_if|find_if_not|any_of|all_of|none_of|count|count_if|reverse|rotate|clamp|min_element|max_element"
    r"|transform|unique|remove_if|nth_element|partition|shuffle|binary_search|set_\w+)\(": "algorithm",  # g++ 14 brings it less often
    r"\bstd::(accumulate|iota|gcd|lcm|partial_sum|inner_product)\b": "numeric",
}
LOCAL = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
NAMESPACE = re.compile(r"^namespace (panpipe(?:::(\w+))?[\w:]*) \{")
SYSTEM = re.compile(r"^\s*#\s*include\s+<([^>]+)>")


def folder_of(path):
    names = [name for name in ALLOWED if path == name or path.startswith(name + "/")]
    return max(names, key=len) if names else None


def included(path, texts, seen):
    """System headers that a file names, itself or through headers of this project."""
    if path in seen or path not in texts:
        return set()
    seen.add(path)
    headers = set()
    for line in texts[path].splitlines():
        local, system = LOCAL.match(line), SYSTEM.match(line)
        if system:
            headers.add(system.group(1))
        elif local:
            headers |= included(local.group(1), texts, seen)
    return headers


def left_out(path, texts):
    code = [(number, line.split("//")[0]) for number, line in enumerate(texts[path].splitlines(), 1)]
    for pattern, header in NEEDED.items():
        uses = [(number, found.group(0)) for number, line in code if (found := re.search(pattern, line))]
        if uses and header not in included(path, texts, set()):
            yield f"{path}:{uses[0][0]}: {uses[0][1].rstrip('(')} needs #include <{header}>"


def misnamed(path, text):
    room = path.split("/")[0]
    if room in NO_NAMESPACE:
        return
    for number, line in enumerate(text.splitlines(), 1):
        found = NAMESPACE.match(line)
        if not found or line.endswith("; }"):  # a declaration of another folder's class
            continue
        wanted = [None, *path.split(".")[0].split("/")[1:]] if room in SHARED else [room]
        if found.group(2) not in wanted:
            yield f"{path}:{number}: {found.group(1)} does not follow the folder: panpipe{'' if room in SHARED else '::' + room}"


def main():
    problems, files = [], 0
    texts = {}
    for file in sorted(root.rglob("*.[ch]pp")):
        path = file.relative_to(root).as_posix()
        if path.startswith(("build", ".")):
            continue
        files += 1
        folder = folder_of(path)
        if folder is None:
            problems.append(f"{path}: no folder of the table in {pathlib.Path(__file__).name} holds it")
            continue
        texts[path] = file.read_text(encoding="utf-8")
        for number, line in enumerate(texts[path].splitlines(), 1):
            local, system = LOCAL.match(line), SYSTEM.match(line)
            if local:
                target = folder_of(local.group(1))
                if target is None and "/" not in local.group(1):
                    problems.append(f'{path}:{number}: include from the root of the tree, not "{local.group(1)}"')
                elif target and target != folder and not any(target == a or target.startswith(a + "/") for a in ALLOWED[folder]):
                    problems.append(f"{path}:{number}: {folder} may not include from {target}")
            elif system:
                for pattern, allowed in FENCED.items():
                    if re.match(pattern, system.group(1)) and not any(path == a or path.startswith(a + "/") for a in allowed):
                        problems.append(f"{path}:{number}: only {', '.join(allowed)} may include <{system.group(1)}>")
    for path in texts:
        problems += left_out(path, texts)
        problems += misnamed(path, texts[path])
    print("\n".join(problems) or f"{files} files, every include in its direction")
    if files < 30:
        problems.append("hardly any file was found: the check looks in the wrong place")
    return 1 if problems else 0


sys.exit(main())
