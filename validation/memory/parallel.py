"""The study's ways to use several ranks: DDP, FSDP 1 and 2, tensor parallelism by DTensor, pipelines."""

import contextlib

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed import pipelining
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, MixedPrecisionPolicy, ShardingStrategy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from . import models, training

FORMATS = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def ddp(model, s):
    bucket = {"bucket_cap_mb": s["bucket_mib"]} if "bucket_mib" in s else {}
    made = DistributedDataParallel(model, gradient_as_bucket_view=s.get("bucket_view", False), **bucket)
    return made, made.no_sync


def fsdp1(model, s):
    reduced = FORMATS[s.get("reduce", "fp32")]
    mixed = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=reduced) if s.get("mixed") else None
    strategy = {2: ShardingStrategy.SHARD_GRAD_OP, 3: ShardingStrategy.FULL_SHARD}[s["zero"]]
    made = FullyShardedDataParallel(
        model,
        sharding_strategy=strategy,
        auto_wrap_policy=ModuleWrapPolicy({models.Block}),
        mixed_precision=mixed,
        use_orig_params=True,
        device_id=torch.cuda.current_device(),
    )
    return made, contextlib.nullcontext


def fsdp2(model, s):
    reduced = FORMATS[s.get("reduce", "fp32")]
    mixed = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=reduced) if s.get("mixed") else MixedPrecisionPolicy()
    keep = {"mp_policy": mixed, "reshard_after_forward": s["zero"] == 3}
    for block in model.blocks:
        fully_shard(block, **keep)
    fully_shard(model, **keep)
    ahead = s.get("prefetch", 0)
    for number, block in enumerate(model.blocks):
        if ahead:
            block.set_modules_to_forward_prefetch(list(model.blocks[number + 1 : number + 1 + ahead]))
            block.set_modules_to_backward_prefetch(list(model.blocks[max(0, number - ahead) : number][::-1]))
    return model, contextlib.nullcontext


def tensor(model, s):
    """Products of blocks, embedding, head and loss are divided, as torchtitan does without sequence parallelism."""
    mesh = init_device_mesh("cuda", (s["ranks"],))
    plan = {f"attention.{name}": ColwiseParallel() for name in ("query", "key", "value")}
    plan |= {"attention.out": RowwiseParallel(), "mlp.up": ColwiseParallel(), "mlp.down": RowwiseParallel()}
    if s["kind"] in ("llama", "qwen"):
        plan["mlp.gate"] = ColwiseParallel()
    for block in model.blocks:
        parallelize_module(block, mesh, plan)
    ends = {"words": RowwiseParallel(input_layouts=Replicate()), "head": ColwiseParallel(use_local_output=False)}
    parallelize_module(model, mesh, ends)
    return model, contextlib.nullcontext


WRAPPERS = {"ddp": ddp, "fsdp1": fsdp1, "fsdp2": fsdp2, "tp": tensor}
SCHEDULES = {
    "gpipe": pipelining.ScheduleGPipe,
    "1f1b": pipelining.Schedule1F1B,
    "interleaved": pipelining.ScheduleInterleaved1F1B,
    "zero-bubble": pipelining.ScheduleInterleavedZeroBubble,
    "zbv": pipelining.ScheduleZBVZeroBubble,
}


def stage_module(s, number, stages):
    """A stage's part of a language model; blocks are divided evenly, the embedding is in the first stage, the head in the last."""
    each = s["layers"] // stages
    module = models.Language(
        {**models.KINDS[s["kind"]], "kv_heads": s["heads"], **s, "layers": each, "loss": "logits", "tied": False},
        training.recompute(s["recompute"], s["every"]),
    )
    if number > 0:
        module.words = module.places = None
    if number < stages - 1:
        module.norm = module.head = None
    return module


def pipeline(s, rank, weights):
    """(modules of this rank, forward and backward of a step)."""
    per_rank = s.get("stages_per_rank", 1)
    stages = s["ranks"] * per_rank
    numbers = [rank + s["ranks"] * turn for turn in range(per_rank)]
    if s["schedule"] == "zbv":
        numbers = [rank, stages - 1 - rank]
    ids = torch.zeros(s["micro"], s["sequence"], dtype=torch.long, device="cuda")
    made, modules = [], []
    for number in numbers:
        with training.made_there(weights):
            module = stage_module(s, number, stages)
        hidden = torch.empty(s["micro"], s["sequence"], s["hidden"], dtype=weights, device="meta")
        logits = torch.empty(s["micro"], s["sequence"], s["vocabulary"], dtype=weights, device="meta")
        given = ids.to("meta") if number == 0 else hidden
        result = logits if number == stages - 1 else hidden
        made.append(
            pipelining.PipelineStage(module, number, stages, torch.device("cuda"), input_args=(given,), output_args=(result,))
        )
        modules.append(module)

    def loss(logits, labels):
        return F.cross_entropy(logits.float().view(-1, logits.shape[-1]), labels.reshape(-1))

    kind = SCHEDULES[s["schedule"]]
    schedule = kind(made if per_rank > 1 else made[0], n_microbatches=s["microbatches"], loss_fn=loss)
    whole = torch.zeros(s["micro"] * s["microbatches"], s["sequence"], dtype=torch.long, device="cuda")

    def run(measure):
        with measure("backward"):  # forwards and backwards alternate
            given = (whole,) if 0 in numbers else ()
            schedule.step(*given, **({"target": whole} if stages - 1 in numbers else {}))

    return nn.ModuleList(modules), run


def join(folder, rank, ranks):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"file://{folder}/meeting", rank=rank, world_size=ranks)
