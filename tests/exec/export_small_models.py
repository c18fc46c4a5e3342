#!/usr/bin/env python3
"""Exports small models and computes, in PyTorch and one process, what a step of training gives: the reference for exported_test.

    export_small_models.py FOLDER

writes NAME.pt2 and NAME.safetensors (inputs of every microbatch, mean loss, gradients, buffers after the step).
"""

import ctypes
import json
import math
import struct
import sys
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F

MICRO, MICROBATCHES = 2, 4
VOCABULARY, LENGTH, WIDTH = 61, 12, 16


class Block(nn.Module):
    """A transformer layer in the manner of GPT-2: a mask that is a buffer, one product for query, key and value."""

    def __init__(self, width=WIDTH, heads=2, dropout=0.0):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, x, mask):
        b, t, c = x.shape
        q, k, v = (
            part.view(b, t, self.heads, c // self.heads).transpose(1, 2) for part in self.attn(self.ln_1(x)).split(c, dim=2)
        )
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(q.size(-1))
        scores = torch.where(mask[:, :, :t, :t], scores, torch.full([], torch.finfo(scores.dtype).min))
        x = x + self.proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    """The mask is made once and crosses every cut, as in Hugging Face's GPT-2; the embedding is also the head."""

    def __init__(self, layers=4, dropout=0.0):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.h = nn.ModuleList(Block(dropout=dropout) for _ in range(layers))
        self.ln_f = nn.LayerNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.lm_head.weight = self.wte.weight
        self.register_buffer(
            "bias", torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril().view(1, 1, LENGTH, LENGTH), persistent=False
        )

    def forward(self, tokens, labels):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        mask = self.bias.logical_and(tokens.ge(0)[:, None, None, :])
        for block in self.h:
            x = block(x, mask)
        logits = self.lm_head(self.ln_f(x))
        return F.cross_entropy(logits.float().view(-1, VOCABULARY), labels.view(-1)), logits


class RmsNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(WIDTH) + 0.5)

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class LlamaLayer(nn.Module):
    def __init__(self, heads=4, kv_heads=2):
        super().__init__()
        self.heads, self.kv_heads, size = heads, kv_heads, WIDTH // heads
        self.input_layernorm, self.post_attention_layernorm = RmsNorm(), RmsNorm()
        self.q, self.o = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.k, self.v = (nn.Linear(WIDTH, kv_heads * size, bias=False) for _ in range(2))
        self.gate, self.up = nn.Linear(WIDTH, 40, bias=False), nn.Linear(WIDTH, 40, bias=False)
        self.down = nn.Linear(40, WIDTH, bias=False)

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        h = self.input_layernorm(x)
        q, k, v = (
            linear(h).view(b, t, n, -1).transpose(1, 2)
            for linear, n in ((self.q, self.heads), (self.k, self.kv_heads), (self.v, self.kv_heads))
        )
        half = q.shape[-1] // 2
        q, k = (y * cos + torch.cat((-y[..., half:], y[..., :half]), -1) * sin for y in (q, k))
        k, v = (
            y[:, :, None].expand(b, self.kv_heads, self.heads // self.kv_heads, t, -1).reshape(b, self.heads, t, -1)
            for y in (k, v)
        )
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(a.transpose(1, 2).reshape(b, t, -1))
        h = self.post_attention_layernorm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    """The rotary angles are computed once, without gradient and outside autocast, and used by every layer."""

    def __init__(self, layers=4):
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(LlamaLayer() for _ in range(layers))
        self.norm, self.lm_head = RmsNorm(), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.register_buffer("frequency", 1e4 ** (-torch.arange(0, 4, 2).float() / 4), persistent=False)

    @torch.no_grad()
    def angles(self, positions):
        with torch.autocast("cpu", enabled=False):
            angle = positions[:, None].float() * self.frequency[None]
            angle = torch.cat((angle, angle), -1)
            return angle.cos(), angle.sin()

    def forward(self, input_ids, labels):
        cos, sin = self.angles(torch.arange(input_ids.shape[1], device=input_ids.device))
        x = self.embed_tokens(input_ids)
        for layer in self.layers:
            x = layer(x, cos, sin)
        logits = self.lm_head(self.norm(x))
        return F.cross_entropy(logits[:, :-1].reshape(-1, VOCABULARY), labels[:, 1:].reshape(-1), ignore_index=-100)


class Bert(nn.Module):
    def __init__(self, layers=3):
        super().__init__()
        self.word, self.position = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.layer = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 2, 32, dropout=0.0, activation="gelu", batch_first=True) for _ in range(layers)
        )
        self.pooler, self.classifier = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3)

    def forward(self, input_ids, attention_mask, labels):
        x = self.norm(self.word(input_ids) + self.position.weight)
        for layer in self.layer:
            x = layer(x, src_key_padding_mask=attention_mask.logical_not())
        return F.cross_entropy(self.classifier(torch.tanh(self.pooler(x[:, 0]))), labels)


class Vit(nn.Module):
    def __init__(self, layers=3):
        super().__init__()
        self.patch = nn.Conv2d(3, WIDTH, 4, 4)
        self.cls, self.position = nn.Parameter(torch.randn(1, 1, WIDTH)), nn.Parameter(torch.randn(1, 17, WIDTH))
        self.blocks = nn.Sequential(
            *(nn.TransformerEncoderLayer(WIDTH, 2, 32, dropout=0.0, batch_first=True, norm_first=True) for _ in range(layers))
        )
        self.head = nn.Linear(WIDTH, 5)

    def forward(self, pixels, labels):
        x = self.patch(pixels).flatten(2).transpose(1, 2)
        x = self.blocks(torch.cat((self.cls.expand(x.shape[0], -1, -1), x), 1) + self.position)
        return F.cross_entropy(self.head(x[:, 0]), labels)


class Double(nn.Sequential):
    def __init__(self, i, o):
        super().__init__(
            nn.Conv2d(i, o, 3, padding=1),
            nn.GroupNorm(2, o),
            nn.SiLU(inplace=True),
            nn.Conv2d(o, o, 3, padding=1),
            nn.ReLU(inplace=True),
        )


class Unet(nn.Module):
    """Skips from every level to its mirror image: they pass over the stages between."""

    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([Double(3, 8), Double(8, 12), Double(12, 16)])
        self.middle = Double(16, 16)
        self.up = nn.ModuleList([Double(32, 12), Double(24, 8), Double(16, 8)])
        self.out = nn.Conv2d(8, 3, 1)

    def forward(self, image, target):
        skips, x = [], image
        for down in self.down:
            x = down(x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.middle(x)
        for up in self.up:
            x = F.interpolate(x, scale_factor=2, mode="nearest")
            x = up(torch.cat((x, skips.pop()), 1))
        return F.mse_loss(self.out(x), target)


class BatchNorms(nn.Module):
    """Residual blocks with batch normalization, in-place sums and activations, and the same weights used twice."""

    class Residual(nn.Module):
        def __init__(self, i, o):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o)
            self.conv2, self.bn2 = nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o)
            self.relu = nn.ReLU(inplace=True)
            self.downsample = nn.Sequential(nn.Conv2d(i, o, 1, bias=False), nn.BatchNorm2d(o)) if i != o else None

        def forward(self, x):
            y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
            y += x if self.downsample is None else self.downsample(x)
            return self.relu(y)

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU6(inplace=True))
        self.layer1 = nn.Sequential(self.Residual(8, 8), self.Residual(8, 8))
        self.layer2 = nn.Sequential(self.Residual(8, 12), self.Residual(12, 12))
        self.fc = nn.Linear(12, 4)

    def forward(self, pixels, labels):
        x = self.layer2(self.layer1(self.stem(pixels)))
        return F.cross_entropy(self.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1)), labels)


class Odd(nn.Module):
    """What other models seldom have: lists of optional tensors, written slices, lifted constants, autocast, several results."""

    def __init__(self):
        super().__init__()
        self.steps = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))
        self.rnn = nn.LSTM(8, 8, num_layers=2, batch_first=True)
        self.frozen = nn.Linear(8, 8)
        self.frozen.requires_grad_(False)
        self.register_buffer("seen", torch.zeros(8))

    def forward(self, x, rows):
        for i, step in enumerate(self.steps):
            y = step(x)
            if i == 1:
                y[:, 0] = y[:, 1] * 2  # writes into a slice
            if i == 2:
                y = y[torch.arange(2)[:, None], rows]  # index with a list of tensors
            if i == 3:
                a, b = y.chunk(2, dim=-1)
                y = torch.cat([b, a * torch.tensor([0.5, float("inf"), 2.0, 1.0]).clamp(max=3.0)], -1)
            if i == 4:
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    y = (y @ self.frozen.weight.t()).float()
                with torch.no_grad():
                    self.seen.mul_(0.9).add_(y.mean((0, 1)), alpha=0.1)
            x = x + torch.tanh(y)
        x, _ = self.rnn(x)
        values, _ = x.sort(dim=1)
        return (values[:, -1] * values[:, 0]).sum() / x.numel() + F.softplus(x).std()


def tokens(*shape, most=VOCABULARY):
    return torch.randint(0, most, shape)


MODELS = {
    "gpt": (Gpt, lambda: {"tokens": tokens(MICRO, LENGTH), "labels": tokens(MICRO, LENGTH)}),
    "llama": (Llama, lambda: {"input_ids": tokens(MICRO, LENGTH), "labels": tokens(MICRO, LENGTH)}),
    "bert": (
        Bert,
        lambda: {
            "input_ids": tokens(MICRO, LENGTH),
            "attention_mask": (torch.arange(LENGTH) < torch.tensor([[LENGTH], [LENGTH - 4]])).long(),
            "labels": tokens(MICRO, most=3),
        },
    ),
    "vit": (Vit, lambda: {"pixels": torch.randn(MICRO, 3, 16, 16), "labels": tokens(MICRO, most=5)}),
    "unet": (Unet, lambda: {"image": torch.randn(MICRO, 3, 16, 16), "target": torch.randn(MICRO, 3, 16, 16)}),
    "batchnorm": (BatchNorms, lambda: {"pixels": torch.randn(MICRO, 3, 8, 8), "labels": tokens(MICRO, most=4)}),
    "odd": (Odd, lambda: {"x": torch.randn(MICRO, 5, 8), "rows": tokens(MICRO, 5, most=5)}),
    "dropout": (lambda: Gpt(2, dropout=0.3), lambda: {"tokens": tokens(MICRO, LENGTH), "labels": tokens(MICRO, LENGTH)}),
}
TYPES = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64", torch.bool: "BOOL"}


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size()
        header[name] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            if tensor.numel():
                data = tensor.detach().contiguous()
                file.write(ctypes.string_at(data.data_ptr(), data.numel() * data.element_size()))


def export(name, folder):
    torch.manual_seed(3)
    make, draw = MODELS[name]
    model, batches = make(), [draw() for _ in range(MICROBATCHES)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(model, (), batches[0])
        for part in program.graph_module.modules():  # they name the folder of this script on the machine that ran it
            for node in part.graph.nodes if hasattr(part, "graph") else ():
                node.meta.pop("stack_trace", None)
        torch.export.save(program, f"{folder}/{name}.pt2")
    result = {f"input/{key}/{i}": value for i, batch in enumerate(batches) for key, value in batch.items()}
    total = 0
    for batch in batches:
        loss = model(**batch)
        loss = loss[0] if isinstance(loss, tuple) else loss
        total += loss.detach().double()
        (loss / MICROBATCHES).backward()
    result["loss"] = (total / MICROBATCHES).reshape(1)
    for key, value in model.named_parameters(remove_duplicate=False):
        if value.grad is not None:
            result[f"gradient/{key}"] = value.grad.float()
    for key, value in model.state_dict().items():
        if key in dict(model.named_buffers()):
            result[f"buffer/{key}"] = value
    write_safetensors(f"{folder}/{name}.safetensors", result)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for model_name in sys.argv[2:] or MODELS:
        export(model_name, sys.argv[1])
