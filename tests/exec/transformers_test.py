#!/usr/bin/env python3
"""Losses and all gradients of small models equal those of transformers' own classes, on one rank and on two.

    transformers_test.py PANPIPE PYTHON [CLASS...]

The models are those of published_weights/write.py, whose weights go in and come out under transformers' names: after a step of SGD with
rate 1 the weights that `panpipe run --export` wrote differ from those before by the gradients. Exits with 77 where there is no Python
with PyTorch and transformers: neither is a dependency.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
LOSS, GRADIENT = 2e-6, 5e-5  # of the loss, and of a tensor's largest gradient: fp32, sums in another order
NOT_CUT = {"falcon", "minimax", "gemma3n_text"}  # by tensor parallelism: one key-value head, a norm over all heads, all gates
DEGREES = {"one rank": {}, "a pipeline of two": {"pipeline": 2}, "two tensor-parallel ranks": {"tensor": 2}}


def scenario(folder, degrees):
    ranks = max(degrees.values(), default=1)
    return {
        "panpipe": 1,
        "cluster": {"devices": ranks, "memory": "4 GiB", "link": {"latency": "1 us", "bandwidth": "10 GB/s"}},
        "workload": {"config": f"{folder}/config.json", "sequence": 8, "weights": str(folder)},
        "batch": {"micro": 1, "microbatches": 2},
        "parallel": degrees,
        "schedule": "zb-h1" if "pipeline" in degrees else "1f1b",
        "optimizer": {"name": "sgd", "learning_rate": 1.0},
        "data": {"tokens": str(folder / "tokens")},
    }


def stored(folder):
    from safetensors.torch import load_file

    made = {}
    for file in pathlib.Path(folder).glob("*.safetensors"):
        made.update(load_file(file))
    return {name: value for name, value in made.items() if not name.endswith(("_decay", ".slope_rate"))}


def run(panpipe, folder, degrees, export):
    file = folder / "scenario.json"
    file.write_text(json.dumps(scenario(folder, degrees)))
    done = subprocess.run(
        [panpipe, "run", file, "--transport", "local", "--json", "--export", export], capture_output=True, text=True, timeout=120
    )
    if done.returncode:
        raise SystemExit(f"{file.read_text()}\n{done.stderr}")
    return json.loads(done.stdout)["losses"][0]


def compare(panpipe, name, folder):
    """The largest differences over all degrees, relative to the loss and to each tensor's largest gradient."""
    import torch
    import write

    model = write.class_model(name)
    write.save(model, name, folder)
    shutil.copy(HERE / "published_weights" / "classes" / name / "config.json", folder)  # some classes write other keys' defaults
    (folder / "tokens").write_bytes(b"".join(int(token).to_bytes(2, "little") for token in write.TOKENS))
    before = stored(folder)
    loss = write.loss_of(model, name)
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter -= parameter.grad
    write.save(model, name, folder / "after")
    wanted = stored(folder / "after")
    worst = {"loss": 0.0, "gradient": 0.0, "absolute": 0.0}
    for number, (words, degrees) in enumerate(DEGREES.items()):
        if "tensor" in degrees and name in NOT_CUT:
            continue
        export = folder / f"export-{number}"
        ours = run(panpipe, folder, degrees, export)
        made = stored(export)
        if made.keys() != wanted.keys():
            raise SystemExit(f"{name}, {words}: other names: {sorted(made.keys() ^ wanted.keys())}")
        worst["loss"] = max(worst["loss"], abs(ours - loss.item()) / loss.item())
        for tensor, value in wanted.items():
            apart, largest = (made[tensor] - value).abs().max().item(), (before[tensor] - value).abs().max().item()
            worst["absolute"] = max(worst["absolute"], apart)
            if largest > 0:
                worst["gradient"] = max(worst["gradient"], apart / max(largest, 1e-3))
            elif apart > 0:
                raise SystemExit(f"{name}, {words}: {tensor} has no gradient in transformers, and one here")
    return worst


def main():
    panpipe, python, names = sys.argv[1], sys.argv[2], sys.argv[3:]
    if not os.environ.get("PANPIPE_INNER"):
        if (
            not os.path.exists(python)
            or subprocess.run([python, "-c", "import torch, transformers"], capture_output=True).returncode
        ):
            print("no Python with PyTorch and transformers")
            return 77
        return subprocess.run([python, *sys.argv], env=dict(os.environ, PANPIPE_INNER="1")).returncode
    sys.path.insert(0, str(HERE / "published_weights"))
    import write

    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for name in names or [*write.CLASSES, *write.FURTHER]:
            worst = compare(panpipe, name, pathlib.Path(folder) / name)
            same = worst["loss"] < LOSS and worst["gradient"] < GRADIENT
            print(f"{'ok' if same else 'FAILED'}: {name}:", ", ".join(f"{key} {value:.1e}" for key, value in worst.items()))
            failed = failed or not same
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
