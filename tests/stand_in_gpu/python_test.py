"""Python's torch on the stand-in GPU computes what it computes on the CPU: losses of three steps of the models of the study of memory
(validation/memory), alone and over ranks, equal those of one process on the CPU.

python_test.py; exit 77, with the reason, where this Python has no torch with CUDA.
"""

import contextlib
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "validation"))
from memory.processes import in_processes, on_stand_in  # noqa: E402

TINY = {"layers": 4, "hidden": 64, "heads": 4, "ffn": 128, "vocabulary": 256, "sequence": 32, "micro": 4}
PICTURES = {"layers": 2, "hidden": 64, "heads": 4, "ffn": 128, "image": 32, "patch": 8, "classes": 10, "micro": 4}
USUAL = {
    **{"precision": "fp32", "attention": "eager", "recompute": "none", "every": 1, "optimizer": "adamw", "loss": "plain"},
    **{"parallel": "one", "ranks": 1, "microbatches": 1},
}
# What is trained; each line's losses are compared with those of its model alone on the CPU.
RUNS = [
    {"kind": "gpt"},
    {"kind": "gpt", "recompute": "full"},
    {"kind": "gpt", "recompute": "reentrant"},
    {"kind": "gpt", "optimizer": "adamw-loop"},
    {"kind": "gpt", "optimizer": "adamw-fused"},
    {"kind": "gpt", "optimizer": "sgd"},
    {"kind": "gpt", "microbatches": 2},
    {"kind": "llama", "kv_heads": 2, "loss": "chunked", "loss_chunks": 2},
    {"kind": "mixtral", "kv_heads": 2, "experts": 4, "chosen": 2},
    {"kind": "bert"},
    {"kind": "vit", **PICTURES},
    {"kind": "unet", "levels": 2, "hidden": 32, "heads": 4, "image": 16, "micro": 2},
    {"kind": "gpt", "parallel": "ddp", "ranks": 2},
    {"kind": "gpt", "parallel": "fsdp1", "zero": 3, "ranks": 2},
    {"kind": "gpt", "parallel": "fsdp2", "zero": 3, "ranks": 2},
    {"kind": "gpt", "parallel": "fsdp2", "zero": 2, "ranks": 2, "recompute": "full"},
    {"kind": "llama", "parallel": "tp", "ranks": 2, "optimizer": "adamw-loop"},
    {"kind": "gpt", "parallel": "pp", "ranks": 2, "schedule": "1f1b", "microbatches": 4},
    {"kind": "gpt", "parallel": "pp", "ranks": 2, "schedule": "zero-bubble", "stages_per_rank": 2, "microbatches": 4},
]
TOLERANCE = 2e-5  # of a loss; sums are taken in another order


def settings_of(run):
    sizes = {} if run["kind"] in ("vit", "unet") else TINY
    return {**USUAL, **sizes, **run}


def drawn(s, device):
    """Inputs and labels, the same on every device and rank."""
    import torch

    from memory import models

    torch.manual_seed(1)
    made = []
    for each in models.batch(s, "cpu"):
        made.append(
            torch.randn(each.shape) if each.is_floating_point() else torch.randint(0, s.get("vocabulary", 10), each.shape)
        )
    return [each.to(device) for each in made]


def divided_loss():
    from torch.distributed.tensor.parallel import loss_parallel

    return loss_parallel()


def whole_model(s):
    import torch

    from memory import models, training

    torch.manual_seed(0)
    return models.build(s, training.recompute(s["recompute"], s["every"]))


def train(s, model, device, rank=0, without_sum=None):
    """Losses of three steps; ranks of replicas take their part of the batch."""
    from memory import training

    optimizer = training.OPTIMIZERS[s["optimizer"]](model.parameters())
    inputs, labels = drawn(s, device)
    parts = s["ranks"] if s["parallel"] in ("ddp", "fsdp1", "fsdp2") else 1
    mine = [each.chunk(parts)[rank % parts].chunk(s["microbatches"]) for each in (inputs, labels)]
    losses = []
    for _ in range(3):
        loss = 0.0
        for given in zip(*mine):
            with divided_loss() if s["parallel"] == "tp" else contextlib.nullcontext():
                each = model(*given) / s["microbatches"]
                each.backward()
            loss += (each.full_tensor() if hasattr(each, "full_tensor") else each).item()
        losses.append(loss)
        optimizer.step()
        optimizer.zero_grad()
    return losses


def train_pipeline(s, rank):
    """The whole model's weights in stages; losses of the rank that holds the last stage."""
    import torch
    import torch.nn.functional as F
    from torch.distributed import pipelining

    from memory import parallel, training

    stages = s["ranks"] * s.get("stages_per_rank", 1)
    numbers = range(rank, stages, s["ranks"])
    weights = whole_model({**s, "parallel": "one"}).state_dict()
    inputs, labels = drawn({**s, "micro": s["micro"]}, "cuda")
    made, modules = [], []
    for number in numbers:
        module = parallel.stage_module(s, number, stages)
        first = number * s["layers"] // stages
        own = {}
        for name in module.state_dict():
            part = name.split(".")
            if part[0] == "blocks":
                part[1] = str(int(part[1]) + first)
            own[name] = weights[".".join(part)]
        module.load_state_dict(own)
        modules.append(module.to("cuda"))
        rows = s["micro"] // s["microbatches"]
        hidden = torch.empty(rows, s["sequence"], s["hidden"], device="meta")
        logits = torch.empty(rows, s["sequence"], s["vocabulary"], device="meta")
        given = torch.empty(rows, s["sequence"], dtype=torch.long, device="meta") if number == 0 else hidden
        result = logits if number == stages - 1 else hidden
        made.append(
            pipelining.PipelineStage(
                modules[-1], number, stages, torch.device("cuda"), input_args=(given,), output_args=(result,)
            )
        )
    parameters = [parameter for module in modules for parameter in module.parameters()]
    optimizer = training.OPTIMIZERS[s["optimizer"]](parameters)

    def loss(made, wanted):
        return F.cross_entropy(made.view(-1, made.shape[-1]), wanted.reshape(-1))

    kind = parallel.SCHEDULES[s["schedule"]]
    schedule = kind(made if len(made) > 1 else made[0], n_microbatches=s["microbatches"], loss_fn=loss)
    losses = []
    for _ in range(3):
        kept = []
        given = (inputs,) if 0 in numbers else ()
        schedule.step(*given, **({"target": labels, "losses": kept} if stages - 1 in numbers else {}))
        losses.append(sum(each.item() for each in kept) / s["microbatches"] if kept else None)
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()  # a rank that ends takes its sends with it
    return losses


def rank_of_run(s, rank, folder):
    """In a process on the stand-in."""
    import torch

    from memory import parallel

    torch.cuda.set_device(rank)
    if s["ranks"] > 1:
        parallel.join(folder, rank, s["ranks"])
    if s["parallel"] == "pp":
        return train_pipeline(s, rank)
    model = whole_model(s).to("cuda")
    if s["parallel"] in parallel.WRAPPERS:
        model, _ = parallel.WRAPPERS[s["parallel"]](model, s)
    return train(s, model, "cuda", rank)


def is_same(s):
    """Prints both sides' losses."""
    alone = {**s, "parallel": "one", "ranks": 1, "microbatches": 1}
    by_rank = in_processes(s["ranks"], lambda rank, folder: rank_of_run(s, rank, folder))
    here = in_processes(1, lambda _, __: train(alone, whole_model(alone), "cpu"))[0]
    known = [losses for losses in by_rank if losses and None not in losses]
    there = [sum(step) / len(known) for step in zip(*known)]
    near = len(there) == len(here) and all(abs(a - b) <= TOLERANCE * abs(b) for a, b in zip(there, here))
    same = near and None not in by_rank and here[0] != here[2]
    print(f"{'same' if same else 'NOT SAME'}: {there} on the stand-in, {here} on the CPU, of {s}", flush=True)
    return same


def inside():
    import torch.distributed.pipelining  # noqa: F401

    from memory import parallel  # noqa: F401

    settings = [settings_of(run) for run in RUNS]
    return 0 if all([is_same({**s, "tied": s["kind"] == "gpt" and s["parallel"] != "pp"}) for s in settings]) else 1


# FSDP 2 frees memory that other streams still read, and orders its next use by events.
sys.exit(inside() if "--inside" in sys.argv else on_stand_in([__file__, "--inside"], STAND_IN_OVERWRITE="reused"))
