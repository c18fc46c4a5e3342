#!/usr/bin/env python3
"""Step time of `panpipe run` against torch.distributed.pipelining, side by side: the same model, the same cut, the same
schedule, two ranks over Gloo, the same number of threads. The two take turns, so that a busy machine is busy for both.

    .venv/bin/python bench/against_torch.py build/release/bin [--rounds 3] [--steps 10] [--json FILE]

The model is a GPT whose halves are the two stages; losses and gradients are held against each other before anything is timed.
"""

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional as F

# hidden, layers, heads, sequence, microbatch samples, microbatches, vocabulary
SIZES = {
    "small (hidden 64)": (64, 8, 4, 32, 1, 8, 256),
    "middling (hidden 256)": (256, 8, 8, 64, 2, 8, 512),
    "large (hidden 1024)": (1024, 4, 16, 128, 4, 4, 1024),
}
SCHEDULES = {"gpipe": "ScheduleGPipe", "1f1b": "Schedule1F1B"}


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        b, s, h = x.shape
        q, k, v = (t.view(b, s, self.heads, h // self.heads).transpose(1, 2) for t in self.qkv(self.ln_1(x)).split(h, dim=2))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, s, h))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, hidden, layers, heads, sequence, vocabulary):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, hidden), nn.Embedding(sequence, hidden)
        self.blocks = nn.Sequential(*(Block(hidden, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(hidden), nn.Linear(hidden, vocabulary, bias=False)
        self.register_buffer("index", torch.arange(sequence), persistent=False)

    def forward(self, ids):
        return self.head(self.norm(self.blocks(self.tokens(ids) + self.positions(self.index))))


def loss_of(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


class WithLoss(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, labels):
        return loss_of(self.model(ids), labels)


def make(size):
    hidden, layers, heads, sequence, micro, microbatches, vocabulary = size
    torch.manual_seed(0)
    model = Gpt(hidden, layers, heads, sequence, vocabulary)
    batch = torch.randint(0, vocabulary, (micro * microbatches, sequence + 1))
    return model, batch[:, :-1].contiguous(), batch[:, 1:].contiguous()


def worker(size_name, schedule_name, steps, warmup, threads):
    """One rank of the PyTorch side; prints its times as JSON on rank 1 (where the loss is)."""
    import torch.distributed as dist
    from torch.distributed import pipelining

    torch.set_num_threads(threads)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), SIZES[size_name]
    hidden, layers, heads, sequence, micro, microbatches, vocabulary = size
    model, ids, labels = make(size)
    pipe = pipelining.pipeline(
        model, mb_args=(ids[:micro],), split_spec={f"blocks.{layers // 2}": pipelining.SplitPoint.BEGINNING}
    )
    stage = pipe.build_stage(rank, torch.device("cpu"))
    schedule = getattr(pipelining, SCHEDULES[schedule_name])(stage, microbatches, loss_fn=loss_of)
    times, loss = [], 0.0
    for step in range(warmup + steps):
        for parameter in stage.submod.parameters():
            parameter.grad = None
        dist.barrier()
        start, losses = time.perf_counter(), []
        if rank == 0:
            schedule.step(ids)
        else:
            schedule.step(target=labels, losses=losses)
        end = torch.tensor([time.perf_counter() - start])
        dist.all_reduce(end, op=dist.ReduceOp.MAX)
        if step >= warmup:
            times.append(end.item())
        loss = sum(value.item() for value in losses) / max(1, len(losses))
    if rank == 1:
        print(json.dumps({"times": times, "loss": loss}), flush=True)
    dist.destroy_process_group()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_torch(size_name, schedule, steps, warmup, threads):
    environment = dict(
        os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), WORLD_SIZE="2", OMP_NUM_THREADS=str(threads)
    )
    ranks = [
        subprocess.Popen(
            [
                sys.executable,
                __file__,
                "--worker",
                size_name,
                schedule,
                "--steps",
                str(steps),
                "--warmup",
                str(warmup),
                "--threads",
                str(threads),
            ],
            env=dict(environment, RANK=str(rank)),
            stdout=subprocess.PIPE,
            text=True,
            stderr=subprocess.DEVNULL,
        )
        for rank in range(2)
    ]
    outputs = [rank.communicate(timeout=600)[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        raise SystemExit(f"the PyTorch side failed on {size_name} {schedule}")
    return json.loads(outputs[1].strip().splitlines()[-1])


def write_safetensors(path, tensors):
    header, offset, blobs = {}, 0, []
    for name, tensor in tensors.items():
        blob = bytes(tensor.contiguous().view(torch.uint8).flatten().tolist())
        header[name] = {
            "dtype": {torch.int64: "I64", torch.float32: "F32"}[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + len(blob)],
        }
        offset += len(blob)
        blobs.append(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(blobs))


def prepare(folder, size_name, schedule):
    """Archive, data and scenario of the Panpipe side."""
    hidden, layers, heads, sequence, micro, microbatches, vocabulary = SIZES[size_name]
    model, ids, labels = make(SIZES[size_name])
    archive = folder / f"gpt-{hidden}.pt2"
    if not archive.exists():
        torch.export.save(torch.export.export(WithLoss(model), (ids[:micro], labels[:micro])), archive)
        write_safetensors(folder / f"gpt-{hidden}.safetensors", {"ids": ids, "labels": labels})
    scenario = folder / f"gpt-{hidden}-{schedule}.yaml"
    scenario.write_text(f"""panpipe: 1
cluster: {{devices: 2, memory: 8 GiB, link: {{latency: 20 us, bandwidth: 5 GB/s}}}}
workload: {{pt2: {archive.name}}}
batch: {{micro: {micro}, microbatches: {microbatches}}}
schedule: {schedule}
partition: [model.blocks.{layers // 2}]
optimizer: none
data: {{tensors: gpt-{hidden}.safetensors}}
""")
    return scenario


def run_panpipe(programs, scenario, steps, warmup, threads, transport):
    done = subprocess.run(
        [
            programs / "panpipe",
            "run",
            scenario,
            "--steps",
            str(steps),
            "--warmup",
            str(warmup),
            "--transport",
            transport,
            "--device",
            "cpu",
            "--threads",
            str(threads),
            "--json",
        ],
        capture_output=True,
        text=True,
        timeout=600,
    )
    if done.returncode:
        raise SystemExit(f"panpipe run failed:\n{done.stderr}")
    result = json.loads(done.stdout)
    return {"times": [entry["step_time_s"] for entry in result["repetitions"]], "loss": result["losses"][-1]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="?", type=pathlib.Path, help="folder with panpipe and panpipe-exec")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="intra-op threads of each rank")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures here")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return worker(*options.worker, options.steps, options.warmup, options.threads)
    if not options.programs:
        parser.error("name the folder with the built programs")
    rows = []
    print(
        f"{'model':24} {'schedule':8} {'PyTorch':>10} {'Panpipe':>10} {'ratio':>6}   median step, {options.rounds} rounds of {options.steps} steps in turns"
    )
    with tempfile.TemporaryDirectory() as name:
        for size_name in SIZES:
            for schedule in SCHEDULES:
                scenario = prepare(pathlib.Path(name), size_name, schedule)
                theirs, ours = [], []
                for _ in range(options.rounds):
                    a = run_torch(size_name, schedule, options.steps, options.warmup, options.threads)
                    b = run_panpipe(options.programs, scenario, options.steps, options.warmup, options.threads, "gloo")
                    if abs(a["loss"] - b["loss"]) > 1e-5 * abs(a["loss"]):
                        raise SystemExit(
                            f"{size_name} {schedule}: the losses differ, {a['loss']} and {b['loss']}: nothing to compare"
                        )
                    theirs += a["times"]
                    ours += b["times"]
                left, right = statistics.median(theirs), statistics.median(ours)
                rows.append(
                    {"model": size_name, "schedule": schedule, "torch_s": left, "panpipe_s": right, "ratio": left / right}
                )
                print(f"{size_name:24} {schedule:8} {left * 1e3:8.2f}ms {right * 1e3:8.2f}ms {left / right:6.2f}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
