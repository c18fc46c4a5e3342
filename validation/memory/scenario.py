"""The scenario of Panpipe that describes a run of the study as closely as a scenario can."""

OPTIMIZERS = {
    "adamw-bf16": {"name": "adamw", "states": "bf16"},
    "adamw-8bit": {"name": "adamw", "states": "8bit"},
    "sgd": "sgd",
    "momentum": "momentum",
}
SCHEDULES = {"gpipe": "gpipe", "1f1b": "1f1b", "interleaved": "interleaved-1f1b", "zbv": "zb-v"}


def workload(s):
    sizes = {key: s[key] for key in ("layers", "hidden", "heads", "ffn", "vocabulary", "sequence") if key in s}
    kind = s["kind"]
    if kind == "gpt":
        return {"model": "gpt", **sizes, "tied_embedding": s.get("tied", s["parallel"] != "pp")}
    if kind == "bert":
        return {"model": "bert", **sizes}
    if kind == "vit":
        sizes.pop("sequence", None)
        return {"model": "vit", **sizes, "image": s["image"], "patch": s["patch"], "classes": s["classes"]}
    if kind == "unet":
        return None  # Panpipe's U-Net is Stable Diffusion XL's
    config = {
        "model_type": {"llama": "llama", "qwen": "qwen2", "mixtral": "mixtral"}[kind],
        "hidden_size": s["hidden"],
        "intermediate_size": s["ffn"],
        "num_hidden_layers": s["layers"],
        "num_attention_heads": s["heads"],
        "num_key_value_heads": s.get("kv_heads", s["heads"]),
        "vocab_size": s["vocabulary"],
        "tie_word_embeddings": kind == "qwen" and s["parallel"] != "pp",
        "max_position_embeddings": s["sequence"],
    }
    if kind == "mixtral":
        config |= {"num_local_experts": s["experts"], "num_experts_per_tok": s["chosen"]}
    return {"config": config, "sequence": s["sequence"]}


def precision(s):
    return {"amp-bf16": "bf16", "amp-fp16": "fp16", "fp32": "bf16" if s.get("mixed") else "fp32", "bf16": "bf16-pure"}[
        s["precision"]
    ]


def framework(s):
    made = {
        "name": "eager-sdpa-chunked-loss" if s["loss"] == "chunked" else "eager-sdpa",
        "context": "8320 KiB",
        "autocast": s["precision"].startswith("amp"),
    }
    if s["attention"] in ("eager", "math"):
        made["attention"] = "unfused"
    if s["optimizer"] in ("adamw-loop", "adamw-fused"):
        made["optimizer_kernel"] = s["optimizer"].split("-")[1]
    if s["parallel"] == "ddp" and "bucket_mib" in s:
        made["gradient_bucket"] = f"{s['bucket_mib']} MiB"
    if s.get("bucket_view"):
        made["gradient_storage"] = "kept"
    if s.get("mixed"):
        made["gradient_bytes"] = 2 if s.get("reduce") == "bf16" else 4
    if s["parallel"] == "fsdp1":
        made["gradient_accumulation"] = "flat"
    if s["loss"] == "chunked":
        made["loss_live_bytes_per_logit"] = 12 / s["loss_chunks"]
    if s["parallel"] == "tp" and s["loss"] == "plain":
        made["loss_live_bytes_per_logit"] = 16  # the operators of DTensor's loss_parallel
    return made


def recompute(s):
    if s["recompute"] == "none":
        return "none"
    if s["recompute"] == "operators":
        return {"operators": ["norms", "elementwise"]}
    return {"every": s["every"]} if s["every"] > 1 else "full"


def blocks_of_stages(s):
    """The first block of each stage of a pipeline."""
    each = s["layers"] // (s["ranks"] * s.get("stages_per_rank", 1))
    return range(0, s["layers"], each)


def describe(s):
    """A map in the form of a scenario's file; None where no scenario describes the run."""
    work = workload(s)
    if work is None:
        return None
    made = {
        "panpipe": 1,
        "cluster": {
            "device": {"file": "devices/a100-80g-sxm.yaml"},
            "devices_per_node": s["ranks"],
            "wiring": {"switch": {"bandwidth": "300 GB/s"}},
        },
        "workload": work,
        "batch": {"micro": s["micro"], "microbatches": s["microbatches"]},
        "precision": precision(s),
        "recompute": recompute(s),
        "optimizer": OPTIMIZERS.get(s["optimizer"], "adamw"),
        "framework": framework(s),
    }
    if s["parallel"] in ("ddp", "fsdp1", "fsdp2"):
        made["parallel"] = {"data": s["ranks"], "zero": s.get("zero", 0)}
        if s.get("prefetch"):
            made["framework"] |= {"gathers_in_flight": 1 + s["prefetch"]}
    if s["parallel"] == "tp":
        made["parallel"] = {"tensor": s["ranks"]}
    if s["parallel"] == "pp":
        made["parallel"] = {"pipeline": s["ranks"]}
        if s.get("stages_per_rank", 1) > 1 and s["schedule"] != "zbv":
            made["parallel"]["virtual_stages"] = s["stages_per_rank"]
        made["partition"] = [f"h.{block}.attention" for block in blocks_of_stages(s)[1:]]
        made["schedule"] = SCHEDULES.get(s["schedule"], "interleaved-zero-bubble")
    return made
