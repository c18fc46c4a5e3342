"""One rank of one run of the study: trains three steps on the stand-in GPU and reports what PyTorch's allocator counted."""

import contextlib
import linecache
import os
import time
from collections import Counter

import torch
from torch.distributed.tensor.parallel import loss_parallel

from . import models, parallel, training

STEPS = 3
# PyTorch's NCCL process group looks every 0.1 s which operations have ended, and keeps their tensors until then. On a GPU a step
# takes longer than that; here it does not, and DDP's first buckets would outlive their step at random.
WATCHDOG = 0.3
HERE = os.path.dirname(os.path.abspath(__file__))


class Peaks:
    """Peaks of the allocator by step and phase."""

    def __init__(self):
        self.step, self.of, self.most_reserved = 0, {}, 0

    @contextlib.contextmanager
    def __call__(self, phase):
        torch.cuda.reset_peak_memory_stats()
        try:
            yield
            torch.cuda.synchronize()
        finally:
            key = self.step, phase
            self.of[key] = max(self.of.get(key, 0), torch.cuda.max_memory_allocated())
            self.most_reserved = max(self.most_reserved, torch.cuda.max_memory_reserved())


def local(tensor):
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def bytes_of(tensors):
    return sum({local(t).untyped_storage().data_ptr(): local(t).untyped_storage().nbytes() for t in tensors}.values())


def prepare(s, rank):
    """(modules, optimizer, forward and backward, scaler)."""
    weights, context, scaler = training.precision(s["precision"])
    if s["parallel"] == "pp":
        model, run = parallel.pipeline(s, rank, weights)
        return model, run, training.OPTIMIZERS[s["optimizer"]](model.parameters()), scaler
    with training.made_there(weights):
        model = models.build(s, training.recompute(s["recompute"], s["every"]))
    if s.get("channels_last"):
        model = model.to(memory_format=torch.channels_last)
    wrapped, without_sum = parallel.WRAPPERS.get(s["parallel"], lambda m, _: (m, contextlib.nullcontext))(model, s)

    def given():
        inputs, labels = models.batch(s, "cuda")
        return (inputs.to(weights) if inputs.is_floating_point() else inputs), labels

    divided = loss_parallel if s["parallel"] == "tp" else contextlib.nullcontext
    run = training.microbatches(wrapped, given, context, scaler, s["microbatches"], without_sum, divided)
    return wrapped, run, training.OPTIMIZERS[s["optimizer"]](wrapped.parameters()), scaler


def states_of(optimizer):
    return [t for state in optimizer.state.values() for t in state.values() if torch.is_tensor(t) and t.is_cuda]


def label_of(frames):
    """The line of the study's own code that allocated, else PyTorch's."""
    named = [frame for frame in frames if frame["filename"].endswith(".py")]
    own = [frame for frame in named if os.path.dirname(frame["filename"]) == HERE and "measure.py" not in frame["filename"]]
    if not own and not named:
        return "made in backward"
    frame = (own or named)[0]
    if any("optim" in each["filename"] for each in named):
        frame = next(each for each in named if "optim" in each["filename"])
    text = linecache.getline(frame["filename"], frame["line"]).strip()
    return f"{os.path.basename(frame['filename'])} {frame['name']}: {text}"[:120]


def parts_at_peak(model, optimizer, before, trace):
    """What was allocated at the peak of the traced step: by line of code, those from before the step by their role."""
    roles = {}
    for parameter in model.parameters():
        roles[local(parameter).untyped_storage().data_ptr()] = "parameters"
    for state in states_of(optimizer):
        roles[local(state).untyped_storage().data_ptr()] = "optimizer's states"
    live = {address: (size, roles.get(address, "held between steps")) for address, size in before.items()}
    now = most = sum(size for size, _ in live.values())
    peak = dict(live)
    for entry in trace:
        if entry["action"] == "alloc":
            live[entry["addr"]] = (entry["size"], label_of(entry.get("frames", [])))
            now += entry["size"]
            if now > most:
                most, peak = now, dict(live)
        elif entry["action"] == "free_completed" and entry["addr"] in live:
            now -= live.pop(entry["addr"])[0]
    parts = Counter()
    for size, label in peak.values():
        parts[label] += size
    return parts


def allocated_blocks():
    return {
        block["address"]: block["size"]
        for segment in torch.cuda.memory_snapshot()
        for block in segment["blocks"]
        if block["state"] == "active_allocated"
    }


def measure(s, rank, folder):
    """The rank's row: a dictionary of numbers, with the parts at the peak of the last step."""
    if s["ranks"] > 1:
        parallel.join(folder, rank, s["ranks"])
    row, peaks, phase = {"rank": rank, "outcome": "ran"}, Peaks(), "start"
    try:
        model, run, optimizer, scaler = prepare(s, rank)
        row["start"] = torch.cuda.memory_allocated()
        steps = training.Steps(run, optimizer, scaler, s.get("clip"), list(model.parameters()), peaks)
        for peaks.step in range(1, STEPS + 1):
            last = peaks.step == STEPS
            if last:
                before = allocated_blocks()
                # Frames of frees would be asked for while Python's exceptions pass through checkpoints, and lose them.
                torch.cuda.memory._record_memory_history(context="alloc", stacks="python", max_entries=10**6)
            steps.step()
            if s["ranks"] > 1:
                time.sleep(WATCHDOG)
            row[f"kept_{peaks.step}"] = torch.cuda.memory_allocated()
            row[f"reserved_{peaks.step}"] = torch.cuda.memory_reserved()
        torch.cuda.synchronize()
        trace = torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()]
        torch.cuda.memory._record_memory_history(enabled=None)
        row["parameters"] = bytes_of(model.parameters())
        row["states"] = bytes_of(states_of(optimizer))
        row["parts"] = dict(parts_at_peak(model, optimizer, before, trace).most_common(10))
    except torch.cuda.OutOfMemoryError:
        row["outcome"] = "out of memory"
    for (step, phase), most in peaks.of.items():
        row[f"{phase}_{step}"] = most
    row["allocated"] = max(peaks.of.values(), default=0)
    row["reserved"] = peaks.most_reserved
    # A full card gives unused segments back, and tries again.
    row["retries"] = torch.cuda.memory_stats().get("num_alloc_retries", 0)
    return row
