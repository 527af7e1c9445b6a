"""Sequences of tokens: an encoder in front of the first step, and a read-out behind the last."""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from ponderosa.tree import token_mean

Positions = Literal["learned", "sinusoidal", "none"]
Place = Literal["query", "mean"]
SCALE = 0.02
"""The standard deviation of embeddings at the start: small beside Adam's steps, so that they are learned soon."""


class Placed(nn.Module):
    """What encoders of tokens share: each place has a signal of its own, learned or sinusoidal (Vaswani et al., 2017)."""

    def place(self, length: int, size: int, positions: Positions) -> None:
        """Make the signals of `length` places, for tokens of that size."""
        if positions not in ("learned", "sinusoidal", "none"):
            raise ValueError(f'positions={positions!r}: choose "learned", "sinusoidal" or "none"')
        self.length = length
        self.positions = nn.Embedding(length, size) if positions == "learned" else None
        self.register_buffer(
            "waves", SCALE * 2**0.5 * sinusoids(length, size) if positions == "sinusoidal" else None, persistent=False
        )

    def placed(self, h: Tensor) -> Tensor:
        """Tokens `[batch, token, size]` with the signals of their places added."""
        if self.positions is not None:
            h = h + self.positions.weight[: h.shape[1]]
        if isinstance(self.waves, Tensor):
            h = h + self.waves[: h.shape[1]]
        return h


class SequenceEncoder(Placed):
    """Token numbers `[batch, token]` as states `[batch, token, size]`: an embedding of the token, plus one of its position,
    normalised.

    Args:
        tokens: how many different tokens there are: numbers from 0 to tokens - 1.
        length: of the longest sequence.
        size: of a token's state.
        positions: "learned", "sinusoidal" (Vaswani et al., 2017) or "none".

    >>> SequenceEncoder(tokens=10, length=6, size=4)(torch.zeros(2, 5, dtype=torch.long)).shape
    torch.Size([2, 5, 4])
    """

    def __init__(self, tokens: int, length: int, size: int, *, positions: Positions = "learned"):
        super().__init__()
        self.tokens = tokens
        self.embedding = nn.Embedding(tokens, size)
        self.place(length, size, positions)
        for embedding in filter(None, (self.embedding, self.positions)):
            nn.init.normal_(embedding.weight, std=SCALE)
        self.norm = nn.LayerNorm(size)

    def forward(self, x: Tensor) -> Tensor:
        self._check(x)
        return self.norm(self.placed(self.embedding(x)))

    def _check(self, x: Tensor) -> None:
        if x.ndim != 2 or x.is_floating_point():
            raise ValueError(f"the input is {x.dtype} {list(x.shape)}: whole numbers [batch, token] are needed")
        if x.shape[1] > self.length:
            raise ValueError(
                f"sequences of {x.shape[1]} tokens, but there are positions for {self.length}: give a larger length"
            )


def sinusoids(length: int, size: int) -> Tensor:
    """Sines and cosines of positions `[length, size]`, with wave lengths from 2 pi to 20,000 pi; the size must be even."""
    if size % 2:
        raise ValueError(f"size={size}: sinusoidal positions need an even size")
    rates = torch.exp(-math.log(10_000) * torch.arange(0, size, 2) / size)
    angles = torch.arange(length)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


class ReadOut(nn.Module):
    """The answer `[batch, output_size]` from states `[batch, token, size]`: a layer norm and a linear layer on one of them.

    Args:
        size: of a token's state.
        output_size: of the answer.
        place: "query" reads the first token, "mean" the mean of all; padding is neither.
    """

    reads_mask = True

    def __init__(self, size: int, output_size: int, *, place: Place = "query"):
        super().__init__()
        if place not in ("query", "mean"):
            raise ValueError(f'place={place!r}: choose "query" or "mean"')
        self.place = place
        self.norm, self.linear = nn.LayerNorm(size), nn.Linear(size, output_size)

    def forward(self, state: Tensor, mask: Tensor | None = None) -> Tensor:
        """`mask` `[batch, token]` is True for what is not padding."""
        return self.linear(self.norm(self._read(state, mask)))

    def _read(self, state: Tensor, mask: Tensor | None) -> Tensor:
        mask = None if mask is None else mask.to(state.device)
        if self.place == "mean":
            return token_mean(state, mask)
        if mask is None:
            return state[:, 0]
        return state[torch.arange(len(state), device=state.device), mask.int().argmax(1)]
