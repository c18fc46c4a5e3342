#!/usr/bin/env python3
"""The script that `panpipe export torch` writes trains on two ranks as `panpipe run` does with the same plan: the same losses.

    torch_script_test.py PANPIPE PYTHON SCENARIO

Exits with 77 where there is no Python with PyTorch.
"""
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

STEPS = 3
TOLERANCE = 1e-5  # of a loss: the same operators on the same values, summed in another order

# Every way to place and order stages that the script knows: a schedule of PyTorch by name in a loop and in a V, and an order from a
# file; cuts inside blocks; parameters on two ranks; gradients that are clipped.
CASES = {
    "a loop, cut inside blocks, tied parameters, clipped": ["schedule=interleaved-1f1b", "partition=[h.0.mlp, h.1.mlp, h.3.mlp]", "seed=3",
                                                            "workload.tied_embedding=true", "optimizer=adamw", "training.clip_gradients=0.5"],
    "a V, split backwards": ["schedule=zb-v", "optimizer={name: momentum, learning_rate: 0.1}"],
    "an order from a file": ["schedule=zb-h1", "precision=bf16"],
}


def run(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, **more)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


def losses_of_script(python, script):
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    command = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script, "--steps", str(STEPS), "--device", "cpu"]
    lines = [line.split() for line in run(command, env=environment).stdout.splitlines() if line.startswith("step ")]
    assert [line[1] for line in lines] == [str(i + 1) for i in range(STEPS)], lines
    return [float(line[3]) for line in lines]


def main():
    panpipe, python, scenario = sys.argv[1:4]
    if not os.path.exists(python) or subprocess.run([python, "-c", "import torch"], capture_output=True).returncode:
        print("no Python with PyTorch in .venv")
        return 77
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for name, settings in CASES.items():
            overrides = [word for setting in settings for word in ("--set", setting)]
            script = pathlib.Path(folder) / "train.py"
            run([panpipe, "export", "torch", scenario, *overrides, "-o", script])
            theirs = losses_of_script(python, script)
            ours = json.loads(run([panpipe, "run", scenario, *overrides, "--steps", str(STEPS), "--transport", "local", "--json"]).stdout)["losses"]
            same = len(ours) == len(theirs) and all(math.isclose(a, b, rel_tol=TOLERANCE) for a, b in zip(ours, theirs))
            # A run that trains nothing would agree too.
            trained = max(ours) - min(ours) > 100 * TOLERANCE
            print(f"{'ok' if same and trained else 'FAILED'}: {name}: script {theirs}, run {ours}")
            failed = failed or not same or not trained
    return 1 if failed else 0


sys.exit(main())
