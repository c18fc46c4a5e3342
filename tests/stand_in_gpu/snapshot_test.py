"""Memory snapshots in both directions: PyTorch's own tools read what `panpipe estimate --memory-snapshot` writes, and
`panpipe import memory` reads what PyTorch's allocator on the stand-in GPU writes, with the allocator's own figures.

snapshot_test.py PANPIPE; exit 77, with the reason, where this Python has no torch with CUDA.
"""

import contextlib
import importlib.util
import json
import pathlib
import pickle
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "validation"))
from answers import answer  # noqa: E402
from memory.processes import on_stand_in  # noqa: E402

EXAMPLE = ROOT / "scenarios/examples/gpt2-large-rtx3090x8.yaml"
RUN = "precision-gpt-t-amp-bf16"  # of validation/memory
SIGNS = {"alloc": 1, "free_completed": -1, "segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}


def equal(what, found, expected):
    if found != expected:
        raise AssertionError(f"{what}: {found}, not {expected}")


def near(what, found, expected):
    """Blocks are whole bytes each, and the answer is one sum."""
    if abs(found - expected) > 1e-6 * expected:
        raise AssertionError(f"{what}: {found}, not {expected}")


def highest(trace, actions):
    """Of the sizes that these actions add and take away."""
    now = most = 0
    for event in trace:
        if event["action"] in actions:
            now += SIGNS[event["action"]] * event["size"]
            most = max(most, now)
    return most


def written_is_read(program, folder, settings):
    """Of the figures of the answer; torch's tools find no fault."""
    from torch.cuda import _memory_viz as viz

    file = folder / "step.pickle"
    figures = answer(program, "estimate", EXAMPLE, settings, "--memory-snapshot", file)["metrics"]
    with open(file, "rb") as stream:
        snapshot = pickle.load(stream)
    (trace,) = snapshot["device_traces"]
    near("allocated", highest(trace, ("alloc", "free_completed")), figures["allocated_memory_bytes"])
    near("reserved", highest(trace, [action for action in SIGNS if "segment" in action]), figures["reserved_memory_bytes"])
    for segment in snapshot["segments"]:
        equal("blocks of a segment", sum(block["size"] for block in segment["blocks"]), segment["total_size"])
        for block in segment["blocks"]:
            equal("a block without frames", bool(block["frames"]), block["state"] == "active_allocated")
    for event in trace:
        for frame in event["frames"]:
            equal("keys of a frame", sorted(frame), ["filename", "line", "name"])
    parts = {event["frames"][-1]["name"] for event in trace}
    equal("uses", {"parameters", "gradients", "optimizer", "activations", "temporary"} <= parts, True)
    expandable = snapshot["allocator_settings"]["expandable_segments"]
    equal("expandable segments", expandable, any(event["action"] == "segment_map" for event in trace))
    reserved = sum(segment["total_size"] for segment in snapshot["segments"])
    equal("segsum", f"total_reserved: {viz.Bytes(reserved)}" in viz.segsum(snapshot), True)
    equal("trace", f"{len(trace)} entries" in viz.trace(snapshot), True)
    lines = viz.memory(snapshot, format_flamegraph=lambda text: text).splitlines()
    equal("flame graph", any("panpipe:0:optimizer;" in line for line in lines), True)
    for plot in (viz.trace_plot(snapshot), viz.segment_plot(snapshot)):
        equal("plot", "MemoryViz.js" in plot, True)


def train(folder, history):
    """Three steps of a run of the study, in this process; what its allocator counted, with the files it wrote."""
    import torch

    from memory import measure, study, training

    run = study.runs()[RUN]
    if history:
        torch.cuda.memory._record_memory_history(context="alloc", stacks="python", max_entries=10**6)
    model, forward_backward, optimizer, scaler = measure.prepare(run, 0)
    steps = training.Steps(forward_backward, optimizer, scaler, None, list(model.parameters()), contextlib.nullcontext)
    for _ in range(3):
        steps.step()
    torch.cuda.synchronize()
    statistics = torch.cuda.memory_stats()
    torch.cuda.memory._dump_snapshot(str(folder / "snapshot.pickle"))
    (folder / "summary.txt").write_text(torch.cuda.memory_summary(), encoding="utf-8")
    return {
        "parameters": measure.bytes_of(model.parameters()),
        "states": measure.bytes_of(measure.states_of(optimizer)),
        **{name: statistics[name] for name in statistics if ".all." in name},
    }


def check_train(folder, history):
    (folder / "counted.json").write_text(json.dumps(train(folder, history)), encoding="utf-8")


def measured_is_read(program, folder, history):
    """77 where no torch has CUDA."""
    command = [__file__, "--train", str(folder), "history" if history else "moment"]
    code = on_stand_in(command, STAND_IN_ARITHMETIC="0", STAND_IN_MEMORY_MIB="16384")
    if code:
        return code
    counted = json.loads((folder / "counted.json").read_text(encoding="utf-8"))
    found = answer(program, "import", "memory", (), folder / "snapshot.pickle")
    for ours, torchs in (
        ("allocated_bytes", "allocated_bytes.all.current"),
        ("requested_bytes", "requested_bytes.all.current"),
        ("reserved_bytes", "reserved_bytes.all.current"),
        ("inactive_split_bytes", "inactive_split_bytes.all.current"),
        ("segments", "segment.all.current"),
    ):
        equal(ours, found[ours], counted[torchs])
    parts = {part["part"]: part["measured_bytes"] for part in found["parts"]}
    if history:
        equal("peak requested", found["peak_requested_bytes"], counted["requested_bytes.all.peak"])
        equal("peak reserved", found["peak_reserved_bytes"], counted["reserved_bytes.all.peak"])
        equal("parameters", parts["parameters"], counted["parameters"])
        equal("optimizer", parts["optimizer"], counted["states"])
    else:
        equal("parts", found["parts_of"], "moment")
        equal("without a history", set(parts), {"reserved", "unknown"})
    told = answer(program, "import", "memory", (), folder / "summary.txt")
    # A summary prints KiB or MiB, rounded down.
    for name in ("allocated", "reserved"):
        for when, torchs in (("", "current"), ("peak_", "peak")):
            exact = counted[f"{name}_bytes.all.{torchs}"]
            equal(f"{name} of the summary", 0 <= exact - told[f"{when}{name}_bytes"] < 2**20, True)
    return 0


def main():
    if importlib.util.find_spec("torch") is None:
        print(f"skipped: {sys.executable} has no torch")
        return 77
    if "--train" in sys.argv:
        check_train(pathlib.Path(sys.argv[2]), sys.argv[3] == "history")
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for settings in ([], ["framework={name: eager, allocator: expandable-segments}"]):
            written_is_read(sys.argv[1], folder, settings)
        for history in (True, False):
            if code := measured_is_read(sys.argv[1], folder, history):
                return code
    print("written snapshots are read by PyTorch, and PyTorch's by Panpipe")
    return 0


sys.exit(main())
