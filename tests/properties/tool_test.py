#!/usr/bin/env python3
"""tools/properties on a program that is wrong on purpose: the checks can fail, what they find is made small, and the messages state what to do."""

import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "properties"
HYPOTHESIS = importlib.util.find_spec("hypothesis") or [*ROOT.glob(".venv/lib/python3*/site-packages/hypothesis")]

# A step takes 1 ms a layer and microbatch, a device needs 1 MiB a layer, and nothing else matters; FAULT adds what is wrong.
FAKE = """#!{python} -SE
import json, os, sys
fault = os.environ.get("FAULT", "")
verb, arguments = sys.argv[1], sys.argv[2:]
if verb == "schedule":
    if "--list" in arguments:
        print("gpipe      all forwards, then all backwards\\n1f1b       one forward, one backward\\nzb-auto    zb-h1 searched: the shortest step")
    else:
        ranks = int(arguments[arguments.index("--ranks") + 1])
        print(json.dumps({{"legal": True, "chains": [list(range(ranks))], "stage_to_rank": list(range(ranks))}}))
    sys.exit(0)
scenario = json.load(open(arguments[0]))
layers, cluster = scenario["workload"].get("layers", 1), scenario["cluster"]
nodes = cluster.get("nodes", 1) if isinstance(cluster, dict) else 1
if verb == "check":
    if "--units" in arguments:
        names = ["embedding"] + [f"h.{{i}}" for i in range(layers)] + ["head"]
        print(json.dumps({{"units": [{{"index": i, "name": name, "block": name}} for i, name in enumerate(names)]}}))
    else:
        print(f"cluster:\\n  nodes: {{nodes}}\\n  # devices_per_node: 8\\n  # network.bandwidth: 25 GB/s")
        for part in ("workload", "batch"):
            print(f"{{part}}:\\n" + "\\n".join(f"  {{key}}: {{value}}" for key, value in scenario[part].items()))
    sys.exit(0)
if fault == "abort":
    print("terminate called", file=sys.stderr)
    sys.exit(70)
if fault == "refuse":
    print("scenario.yaml:1:1: error: no", file=sys.stderr)
    sys.exit(2)
step = 1e-3 * layers * scenario["batch"]["microbatches"]
if fault == "nodes" and layers >= 3 and nodes > 1:
    step *= 2
if fault == "zero" and layers >= 2 and scenario["parallel"].get("zero", 0) >= 2:
    step *= 2
peak = layers * 2**20
if fault == "memory" and scenario.get("recompute") == "full":
    peak += 2**20
row = {{"step_time_s": step, "compute_s": step, "exposed_communication_s": 0.0, "bubble_step": 0.0, "peak_memory_bytes": peak, "memory_limit_bytes": 2**36, "fits": True, "device": 0}}
print(json.dumps({{"metrics": {{**row, "per_device": [row]}}, "memory": [{{"device": 0, "parts": {{"activations": peak}}, "peak_bytes": peak}}]}}))
"""


class Failed(Exception):
    pass


def expect(condition, what, shown=""):
    if not condition:
        raise Failed(f"{what}\n{shown}")


def run(program, *arguments, fault="", code=0):
    done = subprocess.run(
        [str(TOOL), "--panpipe", str(program), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=240,
        env=dict(os.environ, FAULT=fault),
    )
    expect(done.returncode == code, f"exit {done.returncode}, not {code}", done.stdout + done.stderr)
    return done


def sides(folder, name):
    """The two scenarios of a violation."""
    return [
        {
            key: json.loads(value)
            for key, _, value in (
                line.partition(": ") for line in (folder / file).read_text().splitlines() if not line.startswith("#")
            )
        }
        for file in (f"{name}-1.yaml", f"{name}-1-2.yaml")
    ]


def sound(program, folder):
    """A program without fault breaks none of these, and every one of them compares its share: of more-work twice as many."""
    names = ("more-work", "recompute-memory", "unused-nodes", "more-memory")
    done = run(
        program, *(part for name in names for part in ("--property", name)), "--comparisons", 10, "--output", folder / "none"
    )
    expect(done.stdout.splitlines()[0] == "property          comparisons  violations", "the table's head", done.stdout)
    for line in done.stdout.splitlines()[1:5]:
        name, compared, violated = line.split()
        expect(
            name in names and int(compared) == (4 if name == "more-work" else 2) and violated == "0",
            f"2 cases each, twice as many of more-work, and no violation, not '{line}'",
            done.stdout,
        )
    expect(not (folder / "none").exists(), "no folder is made where nothing is found")


def small(program, folder):
    """The step doubles on two nodes and more from three layers on: hardly more than that remains of a random scenario."""
    arguments = ("--property", "unused-nodes", "--comparisons", 60, "--seed", 5)
    done = run(program, *arguments, "--output", folder / "found", fault="nodes", code=1)
    expect(
        "unused-nodes: step_time_s" in done.stdout and str(folder / "found" / "unused-nodes-1.yaml") in done.stdout,
        "the violation is told with its file",
        done.stdout,
    )
    text = (folder / "found" / "unused-nodes-1.yaml").read_text()
    head = [line for line in text.splitlines() if line.startswith("#")]
    expect(head[0] == "# unused-nodes: nodes that the plan does not use change neither step nor memory.", "the property", text)
    # 4 layers, the least that is drawn above 2, x 1 microbatch x 1 ms, doubled.
    expect(head[1] == "# found: step_time_s 0.008 against 0.004", "the figures of both sides", text)
    expect(
        head[2:] == ["# seed 5", "# panpipe estimate unused-nodes-1.yaml", "# panpipe estimate unused-nodes-1-2.yaml"],
        "seed and commands",
        text,
    )
    for side in sides(folder / "found", "unused-nodes"):
        expect(side.pop("cluster")["file"] == "clusters/dgx-a100-80g.yaml", "the plain cluster", text)
        model = side.pop("workload")
        expect(model["model"] == "gpt" and model["layers"] == 4 and "dropout" not in model, "the plain model", text)
        expect(
            side
            == {
                "panpipe": 1,
                "batch": {"micro": 1, "microbatches": 1},
                "precision": "fp32",
                "parallel": {"pipeline": 1, "tensor": 1, "data": 1},
                "schedule": "1f1b",
            },
            f"nothing but what the violation needs: {side}",
            text,
        )
    again = run(program, *arguments, fault="nodes", code=1)
    strip = lambda text: [
        line.split("s  ")[-1] for line in text.splitlines() if "calls of the program" not in line and ".yaml" not in line
    ]
    expect(strip(done.stdout) == strip(again.stdout), "the same seed finds the same", done.stdout + again.stdout)


def other_faults(program, folder):
    done = run(program, "--property", "recompute-memory", "--comparisons", 10, fault="memory", code=1)
    expect(int(done.stdout.splitlines()[-3].split()[2]) > 0, "more memory under recompute", done.stdout)
    done = run(program, "--property", "more-work", "--comparisons", 3, "--output", folder / "abort", fault="abort", code=1)
    expect(
        "no answer while comparing more-work: exit code 70: terminate called" in done.stdout,
        "an end without words is a violation of every property",
        done.stdout,
    )
    expect(
        "The program ended neither with an answer nor in words" in (folder / "abort" / "no-answer-1.yaml").read_text(),
        "and is written",
    )
    done = run(program, "--property", "more-work", "--comparisons", 2, fault="refuse", code=1)
    expect(
        "more-work: nothing was compared; the program refuses what is drawn for it" in done.stdout,
        "a run that compares nothing is no success",
        done.stdout,
    )


def own_strategy(program, folder):
    """The step doubles from two layers and ZeRO 2 on: exactly that remains of what the property's strategy drew."""
    names = ("--property", "zero-one-replica", "--comparisons", 60)
    done = run(program, *names, "--output", folder / "drawn", fault="zero", code=1)
    expect(
        "zero-one-replica: zero 2 on one replica: 2 ms and 4 ms" in done.stdout, "the figures of the smallest case", done.stdout
    )
    side = sides(folder / "drawn", "zero-one-replica")[1]
    expect(
        side["workload"]["layers"] == 2
        and side["batch"] == {"micro": 1, "microbatches": 1}
        and side["parallel"] == {"pipeline": 1, "tensor": 1, "zero": 2},
        "made small",
        str(side),
    )
    done = run(program, *names)
    expect(done.stdout.splitlines()[1].split()[1:] == ["60", "0"], "a program without fault breaks nothing", done.stdout)


def absent(program, folder):
    """Without Hypothesis the tool reports that, and a test is skipped."""
    blocked = folder / "blocked" / "hypothesis"
    blocked.mkdir(parents=True)
    (blocked / "__init__.py").write_text("raise ImportError('none', name='hypothesis')")
    done = subprocess.run(
        [sys.executable, str(TOOL), "--panpipe", str(program)],
        capture_output=True,
        text=True,
        env=dict(os.environ, PYTHONPATH=str(blocked.parent)),
    )
    expect(
        done.returncode == 77 and "tools/setup installs it" in done.stdout, "skipped with the reason", done.stdout + done.stderr
    )


def messages(program, folder):
    done = run(program, "--property", "faster", code=2)
    expect("error: no property 'faster'; there are faster-hardware, more-work" in done.stderr, "an unknown property", done.stderr)
    done = run(folder / "absent", code=2)
    expect(
        f"error: '{folder / 'absent'}' is no program; build it with 'make build', or name one with --panpipe" in done.stderr,
        "no program",
        done.stderr,
    )
    done = run(program, "--seconds", "0", code=2)
    expect("error: --seconds and --comparisons are above 0" in done.stderr, "no time", done.stderr)
    done = run(program, "--list")
    page = (ROOT / "docs/properties.md").read_text(encoding="utf-8")
    listed = [line.split(":")[0] for line in done.stdout.splitlines() if not line.startswith(" ")]
    absent = [name for name in listed if f"`{name}`" not in page]
    expect(len(listed) > 25 and not absent, f"docs/properties.md has a row for {', '.join(absent)}")
    expect(
        "unused-nodes: nodes that the plan does not use change neither step nor memory." in done.stdout, "the list", done.stdout
    )


def stopped(program, folder):
    """Ctrl-C prints the table of what was found so far and ends with 1, because something was."""
    names = ("--property", "unused-nodes", "--property", "more-memory")
    tool = subprocess.Popen(
        [str(TOOL), "--panpipe", str(program), *names, "--seconds", "100000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ, FAULT="nodes"),
    )
    first = tool.stdout.readline()
    tool.send_signal(signal.SIGINT)
    out, error = tool.communicate(timeout=300)
    expect("unused-nodes" in first and "comparisons  violations" in out, "the table so far", first + out + error)
    expect(
        error == "stopped; what was found so far stands above\n" and tool.returncode == 1,
        f"said, with exit 1, not {tool.returncode}",
        out + error,
    )


def main():
    with tempfile.TemporaryDirectory(prefix="panpipe-properties-test-") as name:
        folder = pathlib.Path(name)
        program = folder / "fake"
        program.write_text(FAKE.format(python=sys.executable))
        program.chmod(0o755)
        for test in (absent, sound, small, other_faults, own_strategy, messages, stopped):
            if test is sound and not HYPOTHESIS:
                print("left out without Hypothesis (tools/setup)")
                return 77
            try:
                test(program, folder)
            except Failed as failed:
                print(f"{test.__name__}: {failed}")
                return 1
            print(f"{test.__name__}: ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
