"""The models of the study of memory: plain torch modules, as people write them.

A model is made by `build(settings)` and called with what `batch(settings, device)` makes; it returns a loss. `blocks(model)` are the
repeated parts that recompute, sharding and pipelines treat as one.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

ATTENTION = {"flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION, "math": SDPBackend.MATH}


def attend(kernel, query, key, value, causal):
    """Attention over (batch, heads, tokens, width); `eager` is written out in operators, the others are PyTorch's own."""
    if kernel != "eager":
        with sdpa_kernel(ATTENTION[kernel]):
            return F.scaled_dot_product_attention(query, key, value, is_causal=causal)
    scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
    if causal:
        tokens = query.shape[-2]
        mask = torch.ones(tokens, tokens, dtype=torch.bool, device=query.device).tril()
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(-1) @ value


class Attention(nn.Module):
    """Grouped heads, with rotary positions or without."""

    def __init__(self, hidden, heads, kv_heads, bias, causal, rotary, kernel):
        super().__init__()
        self.width, self.causal, self.rotary, self.kernel = hidden // heads, causal, rotary, kernel
        self.query = nn.Linear(hidden, heads * self.width, bias=bias)
        self.key = nn.Linear(hidden, kv_heads * self.width, bias=bias)
        self.value = nn.Linear(hidden, kv_heads * self.width, bias=bias)
        self.out = nn.Linear(heads * self.width, hidden, bias=bias and not rotary)

    def forward(self, x, turns=None):
        def heads(y):
            return y.view(*y.shape[:2], -1, self.width).transpose(1, 2)

        query, key, value = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        if self.rotary:
            query, key = turn(query, turns), turn(key, turns)
        shared = query.shape[1] // key.shape[1]
        if shared > 1:
            key, value = key.repeat_interleave(shared, 1), value.repeat_interleave(shared, 1)
        attended = attend(self.kernel, query, key, value, self.causal)
        return self.out(attended.transpose(1, 2).reshape(*x.shape[:2], -1))


def turn(x, turns):
    """Rotary positions, as transformers' Llama: x cos + rotate_half(x) sin."""
    cos, sin = (each.to(x.dtype) for each in turns)
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class RMSNorm(nn.Module):
    """As transformers' LlamaRMSNorm: in fp32, operator by operator."""

    def __init__(self, hidden):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype)


class Gelu(nn.Module):
    """GPT's, BERT's and ViT's MLP."""

    def __init__(self, hidden, inner):
        super().__init__()
        self.up, self.down = nn.Linear(hidden, inner), nn.Linear(inner, hidden)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Gated(nn.Module):
    """Llama's MLP."""

    def __init__(self, hidden, inner):
        super().__init__()
        self.gate, self.up = nn.Linear(hidden, inner, bias=False), nn.Linear(hidden, inner, bias=False)
        self.down = nn.Linear(inner, hidden, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Experts(nn.Module):
    """Mixtral's experts, one after another as transformers did; the router's choice is replaced by an even one, since its values are
    not known without arithmetic. Each expert has rows x chosen / experts rows."""

    def __init__(self, hidden, inner, experts, chosen):
        super().__init__()
        self.router = nn.Linear(hidden, experts, bias=False)
        self.experts = nn.ModuleList(Gated(hidden, inner) for _ in range(experts))
        self.chosen = chosen

    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        weights = self.router(rows).softmax(-1, dtype=torch.float)
        weights, _ = weights.topk(self.chosen, -1)
        weights = (weights / weights.sum(-1, keepdim=True)).to(rows.dtype)
        result = torch.zeros_like(rows)
        place = torch.arange(rows.shape[0] * self.chosen, device=x.device) % len(self.experts)
        for number, expert in enumerate(self.experts):
            count = rows.shape[0] * self.chosen // len(self.experts)
            own = (place.argsort()[number * count : (number + 1) * count]) // self.chosen
            made = expert(rows[own]) * weights.flatten()[own].unsqueeze(-1)
            result = result.index_add(0, own, made.to(result.dtype))
        return result.view_as(x)


class Block(nn.Module):
    """A transformer block: norms before its halves, or behind them (BERT)."""

    def __init__(self, s):
        super().__init__()
        norm = RMSNorm if s["norm"] == "rms" else nn.LayerNorm
        gated = s["mlp"] != "gelu"
        self.behind = s["norm"] == "behind"
        self.attention_norm, self.mlp_norm = norm(s["hidden"]), norm(s["hidden"])
        self.attention = Attention(s["hidden"], s["heads"], s["kv_heads"], s["bias"], s["causal"], s["rotary"], s["attention"])
        if s["mlp"] == "experts":
            self.mlp = Experts(s["hidden"], s["ffn"], s["experts"], s["chosen"])
        else:
            self.mlp = (Gated if gated else Gelu)(s["hidden"], s["ffn"])

    def forward(self, x, turns=None):
        if self.behind:
            x = self.attention_norm(x + self.attention(x, turns))
            return self.mlp_norm(x + self.mlp(x))
        x = x + self.attention(self.attention_norm(x), turns)
        return x + self.mlp(self.mlp_norm(x))


class Language(nn.Module):
    """GPT, Llama, Qwen, Mixtral and BERT. The parts are optional, so that a stage of a pipeline holds some of them."""

    def __init__(self, s, run=lambda block, *given: block(*given)):
        super().__init__()
        self.s, self.run = s, run
        norm = RMSNorm if s["norm"] == "rms" else nn.LayerNorm
        self.words = nn.Embedding(s["vocabulary"], s["hidden"])
        self.places = None if s["rotary"] else nn.Embedding(s["sequence"], s["hidden"])
        self.first_norm = norm(s["hidden"]) if s["norm"] == "behind" else None
        self.blocks = nn.ModuleList(Block(s) for _ in range(s["layers"]))
        self.norm = None if s["norm"] == "behind" else norm(s["hidden"])
        self.head = nn.Linear(s["hidden"], s["vocabulary"], bias=False)
        if s["tied"]:
            self.head.weight = self.words.weight

    def turns(self, tokens, device):
        width = self.s["hidden"] // self.s["heads"]
        rates = 1e4 ** (-torch.arange(0, width, 2, device=device) / width)
        angles = torch.outer(torch.arange(tokens, device=device), torch.cat((rates, rates)))
        return angles.cos(), angles.sin()

    def forward(self, x, labels=None):
        if self.words is not None:
            x = self.words(x)
            if self.places is not None:
                x = x + self.places(torch.arange(x.shape[1], device=x.device))
            if self.first_norm is not None:
                x = self.first_norm(x)
        turns = self.turns(x.shape[1], x.device) if self.s["rotary"] else None
        for block in self.blocks:
            x = self.run(block, x, turns)
        if self.norm is not None:
            x = self.norm(x)
        if self.head is None:
            return x
        return x if labels is None and self.s["loss"] != "logits" else self.loss(x, labels)

    def loss(self, x, labels):
        if self.s["loss"] == "logits":
            return self.head(x)
        if self.s["loss"] == "plain":
            return language_loss(self.head(x), labels)
        parts = zip(x.chunk(self.s["loss_chunks"], 1), labels.chunk(self.s["loss_chunks"], 1))
        return sum(self.part_of_loss(*part) for part in parts) / self.s["loss_chunks"]

    def part_of_loss(self, x, labels):
        return torch.utils.checkpoint.checkpoint(lambda y, z: language_loss(self.head(y), z), x, labels, use_reentrant=False)


def language_loss(logits, labels):
    return F.cross_entropy(logits.float().view(-1, logits.shape[-1]), labels.reshape(-1))


class Vision(nn.Module):
    """ViT, with a token for the class."""

    def __init__(self, s, run=lambda block, *given: block(*given)):
        super().__init__()
        self.run = run
        self.patches = nn.Conv2d(3, s["hidden"], s["patch"], s["patch"])
        self.summary = nn.Parameter(torch.zeros(1, 1, s["hidden"]))
        self.places = nn.Parameter(torch.zeros(1, (s["image"] // s["patch"]) ** 2 + 1, s["hidden"]))
        self.blocks = nn.ModuleList(Block(s) for _ in range(s["layers"]))
        self.norm = nn.LayerNorm(s["hidden"])
        self.head = nn.Linear(s["hidden"], s["classes"])

    def forward(self, x, labels):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.summary.expand(x.shape[0], -1, -1).to(x.dtype), x), 1) + self.places
        for block in self.blocks:
            x = self.run(block, x)
        return F.cross_entropy(self.head(self.norm(x)[:, 0]).float(), labels)


class Residual(nn.Module):
    """Two convolutions with norms in groups."""

    def __init__(self, before, after):
        super().__init__()
        self.norms = nn.ModuleList((nn.GroupNorm(32, before), nn.GroupNorm(32, after)))
        self.convolutions = nn.ModuleList((nn.Conv2d(before, after, 3, padding=1), nn.Conv2d(after, after, 3, padding=1)))
        self.short = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x, _=None):
        y = self.convolutions[0](F.silu(self.norms[0](x)))
        return self.short(x) + self.convolutions[1](F.silu(self.norms[1](y)))


class UNet(nn.Module):
    """Residual blocks down and up again, with links across; attention at the bottom."""

    def __init__(self, s, run=lambda block, *given: block(*given)):
        super().__init__()
        self.run = run
        widths = [s["hidden"] * 2**level for level in range(s["levels"])]
        self.first = nn.Conv2d(4, widths[0], 3, padding=1)
        self.down = nn.ModuleList(Residual(a, b) for a, b in zip([widths[0], *widths], widths))
        self.shrink = nn.ModuleList(nn.Conv2d(w, w, 3, 2, 1) for w in widths[:-1])
        self.middle = Block({**s, "hidden": widths[-1], "ffn": 4 * widths[-1], "kv_heads": s["heads"]})
        self.up = nn.ModuleList(Residual(2 * b, a) for a, b in zip([widths[0], *widths], widths))
        self.last = nn.Conv2d(widths[0], 4, 3, padding=1)
        self.blocks = nn.ModuleList([*self.down, *self.up])

    def forward(self, x, labels):
        x, kept = self.first(x), []
        for level, block in enumerate(self.down):
            x = self.run(block, x, None)
            kept.append(x)
            x = self.shrink[level](x) if level < len(self.shrink) else x
        tokens = self.run(self.middle, x.flatten(2).transpose(1, 2), None)
        x = tokens.transpose(1, 2).reshape(x.shape)
        for level in reversed(range(len(self.up))):
            x = self.run(self.up[level], torch.cat((x, kept.pop()), 1), None)
            x = F.interpolate(x, scale_factor=2.0) if level > 0 else x
        return F.mse_loss(self.last(x).float(), labels)


KINDS = {
    "gpt": {"norm": "layer", "mlp": "gelu", "bias": True, "causal": True, "rotary": False, "tied": True},
    "llama": {"norm": "rms", "mlp": "gated", "bias": False, "causal": True, "rotary": True, "tied": False},
    "qwen": {"norm": "rms", "mlp": "gated", "bias": True, "causal": True, "rotary": True, "tied": True},
    "mixtral": {"norm": "rms", "mlp": "experts", "bias": False, "causal": True, "rotary": True, "tied": False},
    "bert": {"norm": "behind", "mlp": "gelu", "bias": True, "causal": False, "rotary": False, "tied": True},
    "vit": {"norm": "layer", "mlp": "gelu", "bias": True, "causal": False, "rotary": False},
    "unet": {"norm": "layer", "mlp": "gelu", "bias": True, "causal": False, "rotary": False},
}


def build(settings, run=None):
    kind = settings["kind"]
    made = {"vit": Vision, "unet": UNet}.get(kind, Language)
    whole = {**KINDS[kind], **settings}
    whole.setdefault("kv_heads", whole["heads"])
    return made(whole, run) if run else made(whole)


def batch(settings, device):
    """Inputs and labels of a microbatch."""
    micro = settings["micro"]
    if settings["kind"] == "vit":
        side = settings["image"]
        return torch.zeros(micro, 3, side, side, device=device), torch.zeros(micro, dtype=torch.long, device=device)
    if settings["kind"] == "unet":
        side = settings["image"]
        return torch.zeros(micro, 4, side, side, device=device), torch.zeros(micro, 4, side, side, device=device)
    size = micro, settings["sequence"]
    return (torch.zeros(size, dtype=torch.long, device=device), torch.zeros(size, dtype=torch.long, device=device))
