"""Plain PyTorch models of the kit, as their authors' code computes them: a GPT, a Llama, a mixture of experts, a ViT."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


def rotated(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class Attention(nn.Module):
    def __init__(self, size, causal, bias, rotary):
        super().__init__()
        self.heads, self.kv, self.causal, self.rotary = size["heads"], size.get("kv_heads", size["heads"]), causal, rotary
        self.head = size["hidden"] // self.heads
        self.qkv = nn.Linear(size["hidden"], (self.heads + 2 * self.kv) * self.head, bias=bias)
        self.out = nn.Linear(size["hidden"], size["hidden"], bias=bias)

    def forward(self, x, cos, sin):
        batch, tokens, hidden = x.shape
        q, k, v = self.qkv(x).split([self.heads * self.head, self.kv * self.head, self.kv * self.head], 2)
        q, k, v = (t.view(batch, tokens, -1, self.head).transpose(1, 2) for t in (q, k, v))
        if self.rotary:
            q, k = rotated(q, cos, sin).to(v.dtype), rotated(k, cos, sin).to(v.dtype)
        made = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, enable_gqa=self.kv != self.heads)
        return self.out(made.transpose(1, 2).reshape(batch, tokens, hidden))


class Gelu(nn.Module):
    def __init__(self, size, approximate):
        super().__init__()
        self.up, self.down = nn.Linear(size["hidden"], 4 * size["hidden"]), nn.Linear(4 * size["hidden"], size["hidden"])
        self.approximate = approximate

    def forward(self, x):
        return self.down(F.gelu(self.up(x), approximate=self.approximate))


class Gated(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.gate, self.up = (nn.Linear(size["hidden"], size["ffn"], bias=False) for _ in range(2))
        self.down = nn.Linear(size["ffn"], size["hidden"], bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Experts(nn.Module):
    """One after another, each over the rows that chose it, as transformers' MixtralSparseMoeBlock."""

    def __init__(self, size):
        super().__init__()
        self.gate = nn.Linear(size["hidden"], size["experts"], bias=False)
        self.experts = nn.ModuleList(Gated(size) for _ in range(size["experts"]))
        self.chosen = size["chosen"]

    def forward(self, x):
        rows = x.reshape(-1, x.size(-1))
        weights, chosen = self.gate(rows).float().softmax(1).topk(self.chosen, 1)
        weights = (weights / weights.sum(1, True)).to(rows.dtype)
        total = torch.zeros_like(rows)
        for number, expert in enumerate(self.experts):
            row, place = torch.where(chosen == number)
            total.index_add_(0, row, (expert(rows[row]) * weights[row, place, None]).to(total.dtype))
        return total.view(x.shape)


class Block(nn.Module):
    def __init__(self, kind, size):
        super().__init__()
        llama = kind in ("llama", "experts")
        norm = (lambda: nn.RMSNorm(size["hidden"], 1e-5)) if llama else (lambda: nn.LayerNorm(size["hidden"]))
        self.before, self.after = norm(), norm()
        self.attention = Attention(size, kind != "vit", not llama, llama)
        if kind == "experts":
            self.mlp = Experts(size)
        else:
            self.mlp = Gated(size) if llama else Gelu(size, "tanh" if kind == "gpt" else "none")

    def forward(self, x, cos, sin):
        x = x + self.attention(self.before(x), cos, sin)
        return x + self.mlp(self.after(x))


class Model(nn.Module):
    """`inputs(batch)` draws a microbatch; a call returns its loss."""

    def __init__(self, kind, size, recompute):
        super().__init__()
        self.kind, self.size, self.recompute = kind, size, recompute
        hidden = size["hidden"]
        if kind == "vit":
            self.tokens = (size["image"] // size["patch"]) ** 2 + 1
            self.patches = nn.Conv2d(3, hidden, size["patch"], size["patch"])
            self.first = nn.Parameter(torch.zeros(1, 1, hidden))
        else:
            self.tokens = size["sequence"]
            self.words = nn.Embedding(size["vocabulary"], hidden)
        if kind in ("gpt", "vit"):
            self.places = nn.Parameter(torch.zeros(1, self.tokens, hidden))
        self.blocks = nn.ModuleList(Block(kind, size) for _ in range(size["layers"]))
        self.norm = nn.RMSNorm(hidden, 1e-5) if kind in ("llama", "experts") else nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, size["classes"] if kind == "vit" else size["vocabulary"], bias=kind == "vit")
        if kind == "gpt" or size.get("tied_embedding"):
            self.head.weight = self.words.weight
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, 0, 0.02)
        head = hidden // size["heads"]
        angles = torch.outer(torch.arange(self.tokens).float(), 1e4 ** (-torch.arange(0, head, 2).float() / head)).repeat(1, 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def inputs(self, batch, device):
        if self.kind == "vit":
            image = self.size["image"]
            return torch.randn(batch, 3, image, image, device=device), torch.randint(
                self.size["classes"], (batch,), device=device
            )
        return tuple(torch.randint(self.size["vocabulary"], (batch, self.tokens), device=device) for _ in range(2))

    def forward(self, given, labels):
        if self.kind == "vit":
            x = self.patches(given).flatten(2).transpose(1, 2)
            x = torch.cat((self.first.expand(x.size(0), -1, -1), x), 1) + self.places
        else:
            x = self.words(given) + (self.places if self.kind == "gpt" else 0)
        for block in self.blocks:
            if self.recompute and self.training:
                x = checkpoint(block, x, self.cos, self.sin, use_reentrant=False)
            else:
                x = block(x, self.cos, self.sin)
        x = self.norm(x)
        if self.kind == "vit":
            return F.cross_entropy(self.head(x[:, 0]).float(), labels)
        return F.cross_entropy(self.head(x).float().flatten(0, 1), labels.flatten())
