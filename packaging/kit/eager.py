"""Trains a model of models.py in plain PyTorch eager, and prints its step and its memory as JSON: eager.py JOB.json cpu|cuda SECONDS"""

import json
import statistics
import sys
import time

import models
import torch

TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        job = json.load(file)
    device, seconds = sys.argv[2], float(sys.argv[3])
    torch.manual_seed(0)
    on_card = device == "cuda"
    wait = torch.cuda.synchronize if on_card else lambda: None
    kind, precision = job["kind"], TYPES[job["precision"]]
    model = models.Model(kind, job["size"], job["recompute"] == "full").to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    scaler = torch.amp.GradScaler(device, enabled=precision == torch.float16)
    batches = [model.inputs(job["micro"], device) for _ in range(job["microbatches"])]
    times, begun = [], time.monotonic()
    warm_up = 2
    while len(times) < warm_up + 3 or (time.monotonic() - begun < seconds and len(times) < warm_up + 30):
        wait()
        start = time.monotonic()
        optimizer.zero_grad(set_to_none=True)
        for given, labels in batches:
            with torch.autocast(device, dtype=precision, enabled=precision != torch.float32):
                loss = model(given, labels) / len(batches)
            scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        wait()
        times.append(time.monotonic() - start)
    steps = times[warm_up:]
    answer = {
        "step_s": statistics.median(steps),
        "steps": len(steps),
        "spread": (max(steps) - min(steps)) / statistics.median(steps),
        "parameters": sum(p.numel() for p in model.parameters()),
        "torch": torch.__version__,
    }
    if on_card:
        answer["allocated_gib"] = torch.cuda.max_memory_allocated() / 2**30
        answer["reserved_gib"] = torch.cuda.max_memory_reserved() / 2**30
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
