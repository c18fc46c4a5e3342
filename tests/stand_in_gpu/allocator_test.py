"""Our replay of PyTorch's caching allocator against that allocator, on the stand-in GPU: both do the same allocations and frees, and
have the same bytes allocated and reserved after each of them.

allocator_test.py REPLAY [--long]; exit 77, with the reason, where this Python has no torch with CUDA. Compared
are random sequences under each of the settings below, and what the allocator recorded of runs of the study of memory
(validation/memory).
"""

import functools
import os
import pathlib
import random
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "validation"))
from memory.processes import in_processes, on_stand_in  # noqa: E402

MIB = 2**20
# PYTORCH_CUDA_ALLOC_CONF, and MiB of the card.
CASES = [
    ("-", 4096),
    ("-", 300),
    ("expandable_segments:True", 4096),
    ("expandable_segments:True", 300),
]
SHORT = {"sequences": 8, "operations": 150, "cases": CASES}
LONG = {"sequences": 200, "operations": 400, "cases": CASES}
STREAMS = 3
# Runs of the study: one device, a full card, and ranks of every kind of parallelism.
RUNS_SHORT = ["precision-gpt-t-amp-bf16", "ddp-gpt-s-x2"]
RUNS_LONG = [
    *("precision-gpt-s-amp-bf16", "precision-llama-s-bf16", "precision-mixtral-s-amp-bf16", "precision-unet-s-amp-bf16"),
    *("recompute-qwen-s-full", "optimizer-gpt-s-adamw-8bit", "loss-gpt-s-chunked-4", "fsdp1-gpt-m-x2-zero3-mixed"),
    *("fsdp2-gpt-m-x2-zero3-mixed", "tp-gpt-m-x2-adamw-loop", "pp-gpt-m-x2-1f1b-n4-b1-bf16", "card-gpt-m-2gib-b8"),
]


def size(draw, usual):
    """Bytes: often one of the sequence's usual sizes, as a model's tensors are, else of any pool."""
    if draw.random() < 0.6:
        return draw.choice(usual)
    return draw.choice([draw.randint(1, 4096), draw.randint(1, MIB), draw.randint(1, 12 * MIB), draw.randint(1, 150 * MIB)])


def sequence(seed, count):
    """Operations as the replay reads them; half of the sequences are on one stream."""
    draw = random.Random(seed)
    usual = [size(draw, [MIB]) for _ in range(6)] + [MIB, MIB + 1, 10 * MIB, 10 * MIB - 512, 20 * MIB, 512]
    streams = draw.choice([1, STREAMS])
    more = draw.uniform(0.5, 0.7)  # share of allocations
    live, made, operations = [], 0, []
    for _ in range(count):
        if draw.random() < 0.01:
            operations.append("e")
        elif not live or draw.random() < more:
            operations.append(f"a {made} {size(draw, usual)} {draw.randrange(streams)}")
            live.append(made)
            made += 1
        else:
            which = draw.choice([0, len(live) - 1, draw.randrange(len(live))])
            operations.append(f"f {live.pop(which)}")
    return operations


def statistics():
    import torch

    known = torch._C._cuda_memoryStats(0)
    return f"{known['allocated_bytes']['all']['current']} {known['reserved_bytes']['all']['current']}"


def do(operations, streams):
    """What PyTorch's allocator reports after each operation, and the operations that it could do: a block that did not fit is not freed."""
    import torch

    blocks, done, said = {}, [], []
    for operation in operations:
        what, *given = operation.split()
        full = ""
        if what == "a":
            try:
                blocks[given[0]] = torch.cuda.caching_allocator_alloc(int(given[1]), 0, streams[int(given[2])])
            except torch.cuda.OutOfMemoryError:
                full = "none "
        elif what == "f":
            if given[0] not in blocks:
                continue
            torch.cuda.caching_allocator_delete(blocks.pop(given[0]))
        else:
            torch.cuda.empty_cache()
        done.append(operation)
        said.append(full + statistics())
    for block in blocks.values():
        torch.cuda.caching_allocator_delete(block)
    torch.cuda.empty_cache()
    return done, said


def random_sequences(settings, card, asked, *_):
    """(lines for the replay, what it has to answer)"""
    import torch

    torch.cuda.init()
    torch.cuda.set_device(0)
    made = [torch.cuda.Stream() for _ in range(STREAMS - 1)]
    streams = [0, *sorted(stream.cuda_stream for stream in made)]
    lines, expected = [], []
    for number in range(asked["sequences"]):
        done, said = do(sequence(f"{settings} {card} {number}", asked["operations"]), streams)
        lines += [f"card {card * MIB} {settings}", *done]
        expected += said
    return lines, expected


def recorded(settings, rank, folder):
    """Of rank 0 of a run of the study, as the allocator recorded it from its first allocation on."""
    import torch

    from memory import measure

    torch.cuda.memory._record_memory_history(context=None, stacks="python", max_entries=10**7)
    measured = torch.cuda.memory._record_memory_history
    torch.cuda.memory._record_memory_history = lambda *_, **__: None
    taken = []
    snapshot = torch.cuda.memory._snapshot

    def kept():
        taken.append(snapshot())
        return taken[-1]

    torch.cuda.memory._snapshot = kept
    measure.measure(settings, rank, folder)
    if not taken:
        kept()
    torch.cuda.memory._record_memory_history = measured
    if rank != 0:
        return [], []
    trace = taken[0]["device_traces"][torch.cuda.current_device()]
    lines, expected = operations_of(trace)
    return [f"card {settings['card_mib'] * MIB} {os.environ.get('PYTORCH_CUDA_ALLOC_CONF') or '-'}", *lines], expected


GROWS = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}


def operations_of(trace):
    """A block that other streams use is free when their use has ended. What is compared: bytes reserved."""
    reserved, numbers, streams, lines, expected = 0, {}, {}, [], []
    for entry in trace:
        what = entry["action"]
        reserved += GROWS.get(what, 0) * entry["size"]
        if what in ("alloc", "oom"):
            stream = streams.setdefault(entry["stream"], len(streams))
            lines.append(f"a {len(lines)} {entry['size']} {stream}")
            if what == "alloc":
                numbers[entry["addr"]] = len(lines) - 1
        elif what == "free_completed":
            lines.append(f"f {numbers.pop(entry['addr'])}")
        else:
            continue
        expected.append(("none " if what == "oom" else "") + f"reserved {reserved}")
    return lines, expected


def is_same(name, replay, lines, expected):
    ran = subprocess.run([replay], input="\n".join(lines), capture_output=True, text=True, check=False)
    answers = ran.stdout.splitlines()
    if expected and "reserved" in expected[0]:
        answers = [("none " if line.startswith("none") else "") + f"reserved {line.split()[-1]}" for line in answers]
    different = [number for number, pair in enumerate(zip(expected, answers)) if pair[0] != pair[1]]
    same = ran.returncode == 0 and len(answers) == len(expected) > 0 and not different
    print(
        f"{'same' if same else 'NOT SAME'}: {name}: {ran.stderr.strip()}, full {sum(x.startswith('none') for x in expected)} times",
        flush=True,
    )
    if not same:
        print(f"  {len(different)} differ of {len(answers)} answers to {len(expected)}")
        operations = [line for line in lines if not line.startswith("card")]
        for number in range(max(0, different[0] - 3), different[0] + 1) if different else ():
            print(f"  {number}: {operations[number]}: PyTorch {expected[number]}, here {answers[number]}")
    return same


def inside(replay, asked, runs):
    import torch  # before the forks
    import torch.distributed.pipelining  # noqa: F401

    from memory import measure, parallel, study  # noqa: F401

    same = True
    for settings, card in asked["cases"]:
        conf = {"STAND_IN_MEMORY_MIB": str(card), "PYTORCH_CUDA_ALLOC_CONF": settings.strip("-")}
        made = in_processes(1, functools.partial(random_sequences, settings, card, asked), conf)[0]
        same &= made is not None and is_same(f"{settings} on {card} MiB", replay, *made)
    for name in runs:
        for settings in ("", "expandable_segments:True"):
            run = study.runs()[name]
            conf = {"STAND_IN_MEMORY_MIB": str(run["card_mib"]), "PYTORCH_CUDA_ALLOC_CONF": settings}
            made = in_processes(run["ranks"], functools.partial(recorded, run), conf)[0]
            same &= made is not None and is_same(f"{name} {settings}", replay, *made)
    return 0 if same else 1


def main():
    asked = (LONG, RUNS_LONG) if "--long" in sys.argv else (SHORT, RUNS_SHORT)
    if "--inside" in sys.argv:
        return inside(sys.argv[1], *asked)
    return on_stand_in([__file__, *sys.argv[1:], "--inside"], STAND_IN_ARITHMETIC="0", STAND_IN_GPUS="2")


sys.exit(main())
