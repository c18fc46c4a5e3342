"""Two models of a user's own, for tools/export_model.py: a U-Net whose skips cross every cut, and a plain GPT."""

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.first, self.second = nn.Conv2d(inside, outside, 3, padding=1), nn.Conv2d(outside, outside, 3, padding=1)
        self.norm = nn.GroupNorm(8, outside)

    def forward(self, x):
        return F.silu(self.norm(self.second(F.silu(self.first(x)))))


class UNet(nn.Module):
    """Three resolutions down and up again; what went down joins on the way up."""

    def __init__(self, channels=32):
        super().__init__()
        wide = [channels, 2 * channels, 4 * channels]
        self.down = nn.ModuleList(Block(inside, outside) for inside, outside in zip([3, *wide[:-1]], wide))
        self.middle = Block(wide[-1], wide[-1])
        self.up = nn.ModuleList(Block(2 * width, below) for width, below in zip(reversed(wide), [*reversed(wide[:-1]), channels]))
        self.out = nn.Conv2d(channels, 3, 1)

    def forward(self, x):
        skips = []
        for block in self.down:
            x = block(x)
            skips.append(x)
            x = F.avg_pool2d(x, 2)
        x = self.middle(x)
        for block, skip in zip(self.up, reversed(skips)):
            x = block(torch.cat([F.interpolate(x, scale_factor=2.0), skip], dim=1))
        return self.out(x)


class Gpt(nn.Module):
    def __init__(self, hidden=256, layers=4, heads=8, sequence=128, vocabulary=2048):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, hidden), nn.Parameter(torch.randn(sequence, hidden) * 0.02)
        layer = nn.TransformerEncoderLayer(
            hidden, heads, 4 * hidden, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(hidden, vocabulary, bias=False)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(sequence), persistent=False)

    def forward(self, ids):
        return self.head(self.blocks(self.tokens(ids) + self.positions, mask=self.mask, is_causal=True))
