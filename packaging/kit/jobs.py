"""The ten jobs of the kit, and their scenarios."""

import json

# GPT-2's published sizes; Llama 3.2 of 1B (its config.json); a mixture in Mixtral's form that fits 24 GB; ViT-L/16.
GPT = {"heads": 12, "hidden": 768, "layers": 12, "sequence": 1024, "vocabulary": 50257}
SIZES = {
    "gpt2-124m": GPT,
    "gpt2-355m": {**GPT, "layers": 24, "hidden": 1024, "heads": 16},
    "gpt2-774m": {**GPT, "layers": 36, "hidden": 1280, "heads": 20},
    "gpt2-1.5b": {**GPT, "layers": 48, "hidden": 1600, "heads": 25},
    "llama-1b": {
        "layers": 16, "hidden": 2048, "heads": 32, "kv_heads": 8, "ffn": 8192, "vocabulary": 128256, "sequence": 2048,
        "tied_embedding": True,
    },
    "experts": {
        "layers": 8, "hidden": 1024, "heads": 16, "kv_heads": 4, "ffn": 2048, "vocabulary": 32000, "sequence": 1024, "experts": 8,
        "chosen": 2,
    },
    "vit-l": {"layers": 24, "hidden": 1024, "heads": 16, "image": 224, "patch": 16, "classes": 1000},
}  # fmt: skip
KINDS = {"llama-1b": "llama", "experts": "experts", "vit-l": "vit"}
# (model, precision, recompute, microbatch), those that say most first: time may run out.
JOBS = [
    ("gpt2-124m", "bf16", "none", 8),
    ("llama-1b", "bf16", "none", 2),
    ("gpt2-1.5b", "bf16", "full", 4),
    ("experts", "bf16", "none", 4),
    ("vit-l", "bf16", "none", 32),
    ("gpt2-774m", "bf16", "none", 4),
    ("gpt2-124m", "fp16", "none", 8),
    ("gpt2-355m", "bf16", "full", 8),
    ("gpt2-1.5b", "bf16", "none", 2),
    ("gpt2-355m", "fp16", "none", 4),
]
MICROBATCHES = 2
TINY = {"layers": 2, "hidden": 64, "heads": 4, "kv_heads": 2, "ffn": 128, "vocabulary": 512, "sequence": 32, "image": 32}


def jobs(tiny):
    """Each as a dict; `tiny`: the same with small sizes, for machines without a card."""
    made = []
    for model, precision, recompute, micro in JOBS:
        size = SIZES[model]
        if tiny:
            size, micro = {key: min(value, TINY.get(key, value)) for key, value in size.items()}, 2
        made.append(
            {
                "name": f"{model}-{precision}" + ("-recompute" if recompute == "full" else ""),
                "kind": KINDS.get(model, "gpt"),
                "size": size,
                "precision": precision,
                "recompute": recompute,
                "micro": micro,
                "microbatches": MICROBATCHES,
            }
        )
    return made


def mixtral_config(size):
    return {
        "model_type": "mixtral", "hidden_size": size["hidden"], "num_hidden_layers": size["layers"],
        "num_attention_heads": size["heads"], "num_key_value_heads": size["kv_heads"], "vocab_size": size["vocabulary"],
        "intermediate_size": size["ffn"], "num_local_experts": size["experts"], "num_experts_per_tok": size["chosen"],
    }  # fmt: skip


def scenario(job, framework, device):
    """The scenario's text; `device`: a device file, or None where there is none."""
    size = job["size"]
    if job["kind"] == "experts":
        workload = f"{{config: {job['name']}.config.json, sequence: {size['sequence']}}}"
    else:
        workload = json.dumps({"model": job["kind"], **size})
    cluster = (
        f"{{devices_per_node: 1, device: {device}}}"
        if device
        else "{devices: 1, memory: 1 TiB, link: {latency: 1 us, bandwidth: 10 GB/s}}"
    )
    lines = [
        "panpipe: 1",
        f"cluster: {cluster}",
        f"workload: {workload}",
        f"batch: {{micro: {job['micro']}, microbatches: {job['microbatches']}}}",
        f"precision: {job['precision']}",
        f"recompute: {job['recompute']}",
        "optimizer: adamw",
        f"framework: {framework}",
    ]
    return "\n".join(lines) + "\n"
