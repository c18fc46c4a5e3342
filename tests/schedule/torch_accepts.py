#!/usr/bin/env python3
"""What `panpipe schedule --csv --torch` writes is accepted by PyTorch: loaded, validated and given its sends and receives by
torch.distributed.pipelining, without running it. What PyTorch cannot express is refused with the reason.

    torch_accepts.py BIN        (77 = skipped: no Python with PyTorch in .venv)
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PYTHON = SOURCE / ".venv/bin/python"

# Prints a line for each file: what PyTorch made of it. Arguments: file, ranks, stages, microbatches, four at a time.
LOAD = """
import sys
from types import SimpleNamespace
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime, _ComputationType

def load(path, ranks, stages, microbatches):
    stage = SimpleNamespace(num_stages=stages, group_size=ranks, group_rank=0, is_last=False)
    runtime = _PipelineScheduleRuntime([stage], microbatches)
    states_transfers = "SEND_" in open(path).read()
    runtime._load_csv(path, format="compute_comms" if states_transfers else "compute_only")
    lowered = runtime.pipeline_order_with_comms
    passes = sends = 0
    for row in lowered.values():
        for action in row:
            parts = action.sub_actions or [action]
            passes += sum(part.is_compute_op for part in parts)
            sends += action.computation_type in (_ComputationType.SEND_F, _ComputationType.SEND_B)
    return f"{passes} passes, {sends} sends"

arguments = sys.argv[1:]
for at in range(0, len(arguments), 4):
    path, sizes = arguments[at], map(int, arguments[at + 1:at + 4])
    try:
        print(load(path, *sizes))
    except Exception as failure:
        print("refused:", type(failure).__name__, str(failure).splitlines()[0])
"""

# Members of one family with other options than its defaults.
OPTIONS = {
    "interleaved-1f1b": [{"stages_per_rank": "3"}, {"combined": "true"}],
    "group-interleaved": [{"group": "2"}],
    "hanayo": [{"stages_per_rank": "2"}],
    "pfeife": [
        {"stages_per_rank": "2", "loop_batch": "8", "prefetch": "2"},
        {"execution": "breadth-first"},
        {"execution": "pipeless"},
    ],
}
TWO_CHAINS = "2 chains, which hold every stage on 2 ranks: its stages form one chain, each on one rank"
REFUSED = {
    "dualpipe": TWO_CHAINS,
    "chimera": TWO_CHAINS,
    "roundpipe": "stages that run forwards or backwards alone",
    "weipipe": "{ranks} chains, which hold every stage on {ranks} ranks: its stages form one chain, each on one rank",
    "seq-1f1b": "sequence splits (2 of them): its cells name no slice",
    "slimpipe": "sequence splits ({ranks} of them): its cells name no slice",
    "pipedream-2bw": "steps without a flush between them: it would run 1f1b",
}
SIZES = [(2, 8), (4, 12), (8, 24)]


def run(program, *arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True)


def families(panpipe):
    lines = run(panpipe, "schedule", "--list").stdout.splitlines()
    return [line.split()[0] for line in lines if not line.startswith(" ")]


def count_of(text):
    """Passes and, as PyTorch counts them, sends of a CSV file: one between neighbouring stages on different ranks."""
    rows = [re.findall(r"(\d+)([FIWB])(\d+)", row) for row in text.splitlines()]
    home = {int(stage): rank for rank, row in enumerate(rows) for stage, _, _ in row}
    sends = 0
    for row in rows:
        for stage, kind, _ in row:
            neighbour = int(stage) + (1 if kind == "F" else -1)
            sends += kind != "W" and neighbour in home and home[neighbour] != home[int(stage)]
    return len(home), f"{sum(map(len, rows))} passes, {sends} sends"


def skip():
    print("skipped: no Python with PyTorch in .venv (make setup installs it)")
    return 77


def main():
    if not PYTHON.exists():
        return skip()
    panpipe = pathlib.Path(sys.argv[1]) / "panpipe"
    names, arguments, expected, failures, refusals = [], [], [], [], set()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{folder}/compiler"  # of PyTorch, else in the temporary folder
        for family in families(panpipe):
            for options in [{}, *OPTIONS.get(family, [])]:
                for ranks, microbatches in SIZES:
                    file = f"{folder}/{len(names)}.csv"
                    given = [word for item in options.items() for word in ("--option", "=".join(item))]
                    sizes = f"--ranks {ranks} --microbatches {microbatches} --csv --torch"
                    made = run(panpipe, "schedule", family, *sizes.split(), *given, "-o", file)
                    name = f"{family} {options or ''} {ranks}x{microbatches}"
                    if family in REFUSED:
                        refusals.add(family)
                        why = REFUSED[family].format(ranks=ranks)
                        if made.returncode != 2 or made.stderr != f"error: PyTorch's CSV cannot express {why}\n":
                            failures.append(f"{name}: exit {made.returncode}, {made.stderr}")
                        continue
                    if made.returncode != 0:
                        again = re.fullmatch(r"error: PyTorch's CSV cannot express \d+R\d+ \(rank \d+\)\n", made.stderr)
                        if family == "auto-memory" and made.returncode == 2 and again:
                            continue  # some of its orders make no activation again
                        if "group" in options and ranks > 4:
                            continue  # a turn of 2 is too short for 8 ranks
                        failures.append(f"{name}: {made.stderr}")
                        continue
                    stages, counts = count_of(open(file).read())
                    names.append(name)
                    expected.append(counts)
                    arguments += [file, str(ranks), str(stages), str(microbatches)]
        loaded = run(PYTHON, "-c", LOAD, *arguments)
        if "ModuleNotFoundError" in loaded.stderr:
            return skip()
    answers = loaded.stdout.splitlines()
    if len(answers) != len(names):
        failures.append(f"PyTorch answered {len(answers)} of {len(names)} times: {loaded.stderr[-2000:]}")
    failures += [
        f"{name}: PyTorch: {answer}; expected {counts}"
        for name, answer, counts in zip(names, answers, expected)
        if answer != counts
    ]
    if refusals != set(REFUSED):
        failures.append(f"not tried: {set(REFUSED) - refusals}")
    for failure in failures:
        print(failure)
    print(f"{len(names)} files loaded by PyTorch, {len(refusals)} families refused with the reason")
    return 1 if failures or len(names) < 40 else 0


if __name__ == "__main__":
    sys.exit(main())
