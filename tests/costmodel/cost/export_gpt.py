#!/usr/bin/env python3
"""Writes the programs of exported_test.cpp, a GPT of one layer with its loss in each of the usual forms; needs PyTorch:
    .venv/bin/python tests/costmodel/cost/export_gpt.py tests/costmodel/cost/data

A file holds an archive's program and the description of its weights, without the weights' values."""

import io
import json
import pathlib
import sys
import zipfile

import torch
from torch import nn
from torch.nn import functional

HIDDEN, HEADS, VOCABULARY, SEQUENCE, MICRO = 64, 4, 512, 128, 2


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)

    def forward(self, x):
        q, k, v = (part.view(MICRO, SEQUENCE, HEADS, -1).transpose(1, 2) for part in self.c_attn(x).split(HIDDEN, dim=2))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(MICRO, SEQUENCE, HIDDEN))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x):
        return self.c_proj(functional.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.attn, self.ln_2, self.mlp = nn.LayerNorm(HIDDEN), Attention(), nn.LayerNorm(HIDDEN), Mlp()

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


def flat(logits):
    return logits.reshape(-1, VOCABULARY)


# Each takes the head's logits [micro, sequence, vocabulary] and the labels [micro, sequence].
LOSSES = {
    "plain": lambda x, y: functional.cross_entropy(x.view(-1, VOCABULARY), y.view(-1)),
    "cast_then_view": lambda x, y: functional.cross_entropy(x.float().view(-1, VOCABULARY), y.view(-1)),
    "view_then_cast": lambda x, y: functional.cross_entropy(x.view(-1, VOCABULARY).float(), y.flatten()),
    "shifted_logits": lambda x, y: functional.cross_entropy(
        flat(x.float()[:, :-1, :].contiguous()), y[:, 1:].contiguous().view(-1)
    ),
    "padded_labels": lambda x, y: functional.cross_entropy(
        flat(x.float()), functional.pad(y, (0, 1), value=-100)[..., 1:].contiguous().view(-1), ignore_index=-100
    ),
}


class Gpt(nn.Module):
    def __init__(self, loss):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, HIDDEN), nn.Embedding(SEQUENCE, HIDDEN)
        self.h = nn.ModuleList([Block()])
        self.ln_f, self.lm_head = nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, VOCABULARY, bias=False)
        self.lm_head.weight = self.wte.weight
        self.register_buffer("positions", torch.arange(SEQUENCE))
        self.loss = loss

    def forward(self, input_ids, labels):
        x = self.wte(input_ids) + self.wpe(self.positions)
        for block in self.h:
            x = block(x)
        return self.loss(self.lm_head(self.ln_f(x)), labels)


def read(archive, ending):
    return json.loads(archive.read(next(name for name in archive.namelist() if name.endswith(ending))))


def main():
    folder = pathlib.Path(sys.argv[1])
    for name, loss in LOSSES.items():
        ids = torch.zeros(MICRO, SEQUENCE, dtype=torch.int64)
        program = torch.export.export(Gpt(loss).to(torch.bfloat16), (), {"input_ids": ids, "labels": ids.clone()})
        stream = io.BytesIO()
        torch.export.save(program, stream)
        archive = zipfile.ZipFile(stream)
        kept = {
            "program": read(archive, "models/model.json"),
            "weights": read(archive, "model_weights_config.json"),
            "constants": read(archive, "model_constants_config.json"),
        }
        for node in kept["program"]["graph_module"]["graph"]["nodes"]:
            node["metadata"] = {key: value for key, value in node["metadata"].items() if key == "nn_module_stack"}
        (folder / f"gpt_{name}.json").write_text(json.dumps(kept, separators=(",", ":")) + "\n")


main()
