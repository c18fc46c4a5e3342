"""Counts the models of counted_models.json with transformers and torch, and writes the numbers into it.

python count_models.py            (transformers 5.24, torch 2.11)

"parameters": those that train, of the class on the meta device. "forward_flops", where "tokens" is stated: what
torch.utils.flop_counter counts in a forward pass of one sample with the head, without the tables of rotary positions.
"""

import json
import logging
import pathlib
import sys

import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, AutoModelForImageTextToText

FILE = pathlib.Path(__file__).with_name("counted_models.json")
TYPES = {"kimi_k2": "deepseek_v3"}  # published with code of its own, which is DeepSeek-V3's


def model_of(config: dict, device: str) -> torch.nn.Module:
    kind = TYPES.get(config["model_type"], config["model_type"])
    made = CONFIG_MAPPING[kind](**{key: value for key, value in config.items() if key != "model_type"})
    made._attn_implementation = "eager"
    made._experts_implementation = "eager"  # grouped products are unknown to the counter
    with torch.device(device):
        auto = AutoModelForImageTextToText if hasattr(made, "vision_config") else AutoModelForCausalLM
        return auto.from_config(made)


def forward_flops(config: dict, tokens: int) -> int:
    model = model_of(config, "cpu")
    ids = torch.arange(tokens).remainder(config["vocab_size"]).unsqueeze(0)
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        model(input_ids=ids, use_cache=False)
    tables = sum(sum(by.values()) for name, by in counter.get_flop_counts().items() if name.endswith("rotary_emb"))
    return counter.get_total_flops() - tables


def main() -> None:
    logging.disable(logging.WARNING)
    models = json.loads(FILE.read_text())
    wanted = set(sys.argv[1:])
    for model in models:
        config = model["config"]
        if wanted and config["model_type"] not in wanted:
            continue
        count = model_of(config, "meta")
        model["parameters"] = sum(p.numel() for p in count.parameters() if p.requires_grad)
        if "tokens" in model:
            model["forward_flops"] = forward_flops(config, model["tokens"])
    rows = ",\n".join(json.dumps(model) for model in models)
    FILE.write_text(f"[\n{rows}\n]\n")


if __name__ == "__main__":
    main()
