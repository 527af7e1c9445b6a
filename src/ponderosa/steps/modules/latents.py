"""Latents that all steps share (UPT; Perceiver, Jaegle et al., 2021): each token also attends to them."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ponderosa.steps.modules.base import Modulation


class Latents(Modulation):
    """Each step adds cross-attention from the tokens to learned latents, between self-attention and feed-forward.

    The latents are the same at all steps and in all layers. They are learned as keys and values: with no more of them than
    the size, projecting them first could express nothing else, and would cost as much at every step as many tokens do.

    >>> import ponderosa as po
    >>> step = po.TransformerStep(16, 4, modulation=po.Latents(count=8))
    >>> step(torch.randn(2, 5, 16)).shape
    torch.Size([2, 5, 16])

    Args:
        count: how many.
    """

    def __init__(self, *, count: int = 128):
        if count < 1:
            raise ValueError(f"count={count}: at least one latent is needed")
        self.count = count

    def between(self, size: int, heads: int, layers: int) -> Sequence[nn.Module]:
        latents = LatentPool(self.count, size)
        return [CrossAttention(latents, size, heads) for _ in range(layers)]


class LatentPool(nn.Module):
    """Keys and values `[latent, size]`."""

    def __init__(self, count: int, size: int):
        super().__init__()
        # as projections of normalised tokens are: each number of variance 1/3
        self.keys, self.values = (nn.Parameter(torch.randn(count, size) / 3**0.5) for _ in range(2))


class CrossAttention(nn.Module):
    """What tokens `[..., size]` find in the latents `[..., size]`."""

    def __init__(self, latents: LatentPool, size: int, heads: int):
        super().__init__()
        self.latents, self.heads = latents, heads
        self.query, self.out = nn.Linear(size, size), nn.Linear(size, size)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.query(x).reshape(-1, x.shape[-1])
        q, k, v = (
            rows.unflatten(-1, (self.heads, -1)).transpose(0, 1) for rows in (tokens, self.latents.keys, self.latents.values)
        )
        found = F.scaled_dot_product_attention(q[None], k[None], v[None])[0].transpose(0, 1)
        return self.out(found.reshape(x.shape))
