#!/usr/bin/env python3
"""A step of `panpipe run` with Muon is torch.optim.Muon's on hidden matrices and torch.optim.AdamW's on the rest.

    muon_reference_test.py PANPIPE PYTHON SCENARIO

The checkpoint behind a step holds weights and states; the gradients of the next step are written by --dump-gradients. The reference
takes these, and must reach what the checkpoint behind the next step holds. Exits with 77 where PYTHON has no torch.optim.Muon.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

RATE, DECAY = 0.01, 0.1
CASES = {
    "torch's scale, nesterov": ({}, {}),
    "moonlight's scale, no nesterov, three iterations": (
        {"update_scale": "match-rms", "nesterov": False, "newton_schulz_steps": 3, "momentum": 0.9},
        {"adjust_lr_fn": "match_rms_adamw", "nesterov": False, "ns_steps": 3, "momentum": 0.9},
    ),
}

REFERENCE = r"""
import json, pathlib, sys, torch
from safetensors_of import load
before, gradients, after, choices = sys.argv[1:5]
choices, rate, decay = json.loads(choices), float(sys.argv[5]), float(sys.argv[6])
state, gradients, reached = load(before), load(gradients), load(after)
names = sorted(name for name in gradients if name in state)
matrices = [name for name in names if name + ".momentum_buffer" in state]
others = [name for name in names if name not in matrices]
assert matrices and others and all(state[name].dim() == 2 for name in matrices)
weights = {name: state[name].clone().requires_grad_(True) for name in names}
for name, weight in weights.items():
    weight.grad = gradients[name].view_as(weight)
muon = torch.optim.Muon([weights[name] for name in matrices], lr=rate, weight_decay=decay, **choices)
adamw = torch.optim.AdamW([weights[name] for name in others], lr=rate, weight_decay=decay)
for name in matrices:
    muon.state[weights[name]]["momentum_buffer"] = state[name + ".momentum_buffer"].clone()
for name in others:
    moments = {kind: state[f"{name}.{kind}"].clone() for kind in ("exp_avg", "exp_avg_sq")}
    adamw.state[weights[name]] = {"step": torch.tensor(1.0), **moments}
muon.step(), adamw.step()
worst = 0.0
for name in names:
    moved = (reached[name] - state[name]).abs().max().item()
    assert moved > 1e-4, name
    worst = max(worst, (weights[name].detach() - reached[name]).abs().max().item() / moved)
print(json.dumps({"matrices": len(matrices), "others": len(others), "worst": worst}))
"""

# The format is 8 bytes of a length, a header in JSON, and the values.
SAFETENSORS = r"""
import json, pathlib, torch
def load(path):
    found = {}
    files = [pathlib.Path(path)] if pathlib.Path(path).is_file() else sorted(pathlib.Path(path).glob("*.safetensors"))
    for file in files:
        data = file.read_bytes()
        size = int.from_bytes(data[:8], "little")
        for name, entry in json.loads(data[8 : 8 + size]).items():
            if name == "__metadata__" or entry["dtype"] != "F32":  # positions are integers
                continue
            begin, end = (8 + size + offset for offset in entry["data_offsets"])
            values = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.float32)
            found[name] = values.view(entry["shape"]).clone()
    return found
"""


def run(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, **more)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def main():
    panpipe, python, scenario = sys.argv[1:4]
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{folder}/compiler"  # of PyTorch, else in the temporary folder
        probe = [python, "-c", "import torch; torch.optim.Muon"]
        if not os.path.exists(python) or subprocess.run(probe, capture_output=True).returncode:
            print("no Python with torch.optim.Muon in .venv")
            return 77
        (folder / "safetensors_of.py").write_text(SAFETENSORS)
        (folder / "reference.py").write_text(REFERENCE)
        for number, (case, (ours, theirs)) in enumerate(CASES.items()):
            optimizer = json.dumps({"name": "muon", "learning_rate": RATE, "weight_decay": DECAY, **ours})
            checkpoints, gradients = folder / f"c{number}", folder / f"g{number}.safetensors"
            base = [
                panpipe,
                "run",
                scenario,
                "--transport",
                "local",
                "--set",
                f"optimizer={optimizer}",
                "--checkpoint",
                checkpoints,
            ]
            run([*base, "--steps", "1"])
            run([*base, "--steps", "2", "--resume", "auto", "--dump-gradients", gradients])
            steps = [checkpoints / f"step-{step:06}" for step in (1, 2)]
            words = [steps[0], gradients, steps[1], json.dumps(theirs), str(RATE), str(DECAY)]
            found = json.loads(run([python, folder / "reference.py", *words], cwd=folder))
            # Of the largest move of a tensor: both round the same products to 8 bits, in one order.
            good = found["worst"] < 1e-5
            print(f"{'ok' if good else 'FAILED'}: {case}: {found}")
            failed |= not good
    return int(failed)


sys.exit(main())
