#!/usr/bin/env python3
"""The script that `panpipe export torch` writes trains on two ranks as `panpipe run` does with the same plan: the same losses.

    torch_script_test.py PANPIPE PYTHON SCENARIO

Exits with 77 where there is no Python with PyTorch.
"""

import json
import math
import os
import pathlib
import socket
import subprocess
import sys
import tempfile

STEPS = 3
TOLERANCE = 1e-5  # of a loss: the same operators on the same values, summed in another order

# Every way to place and order stages that the script knows: a schedule of PyTorch by name in a loop and in a V, and an order from a
# file; cuts inside blocks; parameters on two ranks; gradients that are clipped.
CASES = {
    "a loop, cut inside blocks, tied parameters, clipped": [
        "schedule=interleaved-1f1b",
        "partition=[h.0.mlp, h.1.mlp, h.3.mlp]",
        "seed=3",
        "workload.tied_embedding=true",
        "optimizer=adamw",
        "training.clip_gradients=0.5",
    ],
    "a V, split backwards, tied parameters on one rank": [
        "schedule=zb-v",
        "workload.tied_embedding=true",
        "optimizer={name: momentum, learning_rate: 0.1}",
    ],
    "an order from a file": ["schedule=zb-h1", "precision=bf16"],
}


def run(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, **more)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def output_of_ranks(command, environment):
    """As torchrun starts them, without the time that torchrun itself takes."""
    environment = dict(environment, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), WORLD_SIZE="2")
    ranks = [
        subprocess.Popen(
            command,
            env=dict(environment, RANK=str(rank), LOCAL_RANK=str(rank)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    outputs = [rank.communicate(timeout=280)[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        raise SystemExit("a rank failed:\n" + "\n".join(outputs))
    return outputs[0]


def losses_of_script(python, script, torchrun):
    environment, arguments = dict(os.environ, OMP_NUM_THREADS="1"), [script, "--steps", str(STEPS), "--device", "cpu"]
    if torchrun:
        options = ["--standalone", "--nproc-per-node", "2", "--log-dir", str(script.parent)]
        output = run([python, "-m", "torch.distributed.run", *options, *arguments], env=environment).stdout
    else:
        output = output_of_ranks([python, *arguments], environment)
    lines = [line.split() for line in output.splitlines() if line.startswith("step ")]
    assert [line[1] for line in lines] == [str(i + 1) for i in range(STEPS)], output
    return [float(line[3]) for line in lines]


def main():
    panpipe, python, scenario = sys.argv[1:4]
    if not os.path.exists(python) or subprocess.run([python, "-c", "import torch"], capture_output=True).returncode:
        print("no Python with PyTorch in .venv")
        return 77
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TMPDIR"] = folder  # where PyTorch and torchrun make folders of their own
        for number, (name, settings) in enumerate(CASES.items()):
            overrides = [word for setting in settings for word in ("--set", setting)]
            script = pathlib.Path(folder) / "train.py"
            run([panpipe, "export", "torch", scenario, *overrides, "-o", script])
            theirs = losses_of_script(python, script, torchrun=number == 0)
            ours = json.loads(
                run([panpipe, "run", scenario, *overrides, "--steps", str(STEPS), "--transport", "local", "--json"]).stdout
            )["losses"]
            same = len(ours) == len(theirs) and all(math.isclose(a, b, rel_tol=TOLERANCE) for a, b in zip(ours, theirs))
            # A run that trains nothing would agree too.
            trained = max(ours) - min(ours) > 100 * TOLERANCE
            print(f"{'ok' if same and trained else 'FAILED'}: {name}: script {theirs}, run {ours}")
            failed = failed or not same or not trained
    return 1 if failed else 0


sys.exit(main())
