#!/usr/bin/env python3
"""How long a call from Python takes compared with the same call in C++, on one core.

  bench/python_calls.py [BUILD]     BUILD: a build folder with the Python module and bench_call (default build/release)

Rows are the CPU time of whole calls, a scenario to a prediction with its figures. `kept` is a scenario that was asked before: its files
are compared byte by byte and nothing is parsed, planned or lowered again. `new` is one that was not, with another
seed each time. The overhead is what a call takes beyond the C++ function that predicts, both timed within each call: on a machine
that does much else the difference of two tables means little."""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCENARIO = "examples/gpt3-175b-a100x64.yaml"
AS_DICT = {
    "panpipe": 1,
    "cluster": {"file": "clusters/dgx-a100-80g.yaml", "nodes": 8},
    "workload": {"model": "gpt3-175b", "sequence": 2048},
    "batch": {"micro": 1, "microbatches": 64},
    "precision": "fp16",
    "parallel": {"pipeline": 8, "tensor": 8, "virtual_stages": 3},
    "schedule": "interleaved-1f1b",
    "partition": "auto",
    "recompute": "full",
    "optimizer": "adam",
    "framework": "megatron",
}


def microseconds(call, least_s=1.0):
    """CPU time of a call: the best of five rounds, so that other work on the machine counts little."""
    best, rounds = float("inf"), 5
    call()
    for _ in range(rounds):
        begin, count = time.process_time(), 0
        while time.process_time() - begin < least_s / rounds:
            call()
            count += 1
        best = min(best, (time.process_time() - begin) / count)
    return 1e6 * best


def overhead(panpipe, calls=1000):
    """Microseconds of a call that are not the prediction's own: the median of many calls."""
    beyond = []
    for _ in range(calls):
        begin = time.perf_counter()
        step = panpipe.estimate(SCENARIO)
        beyond.append(time.perf_counter() - begin - step._core.engine_s)
    return 1e6 * statistics.median(beyond)


def cpp(build):
    done = subprocess.run(
        [build / "bin" / "bench_call", "--benchmark_filter=estimate_", "--benchmark_format=json", "--benchmark_repetitions=3"],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [row for row in json.loads(done.stdout)["benchmarks"] if row["run_type"] == "iteration"]
    return {name: min(row["cpu_time"] for row in rows if row["run_name"] == name) for name in {row["run_name"] for row in rows}}


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "release").resolve()
    if not list((build / "python" / "panpipe").glob("_core*.so")) or not (build / "bin" / "bench_call").exists():
        print(f"python_calls: {build} has no Python module or no bench_call; make build makes both", file=sys.stderr)
        return 3
    sys.path.insert(0, str(build / "python"))
    os.environ.setdefault("PANPIPE_DATA", str(ROOT / "scenarios"))
    import panpipe

    seeds = iter(range(1, 10**9))
    python = {
        "kept": microseconds(lambda: panpipe.estimate(SCENARIO)),
        "new": microseconds(lambda: panpipe.estimate(SCENARIO, set={"seed": next(seeds)})),
        "dict": microseconds(lambda: panpipe.estimate(AS_DICT, set={"seed": next(seeds)})),
        "figures": microseconds(lambda step=panpipe.estimate(SCENARIO): step._core.metrics()),
    }
    beyond = overhead(panpipe)
    from_cpp = cpp(build)
    kept, whole = from_cpp["estimate_kept"], from_cpp["estimate_call"]
    print(f"{'call':42} {'Python':>10} {'C++':>10} {'ratio':>7} {'overhead':>10} {'calls/s':>9}")
    print(
        f"{'estimate, a scenario asked before':42} {python['kept']:7.0f} us {kept:7.0f} us {python['kept'] / kept:7.2f} {beyond:7.0f} us {1e6 / python['kept']:9.0f}"
    )
    print(
        f"{'estimate, a new one':42} {python['new']:7.0f} us {whole:7.0f} us {python['new'] / whole:7.2f} {'':10} {1e6 / python['new']:9.0f}"
    )
    print(
        f"{'estimate, a new one from a dict':42} {python['dict']:7.0f} us {whole:7.0f} us {python['dict'] / whole:7.2f} {'':10} {1e6 / python['dict']:9.0f}"
    )
    print(f"{'.metrics, once a result':42} {python['figures']:7.0f} us")
    return 0


if __name__ == "__main__":
    sys.exit(main())
