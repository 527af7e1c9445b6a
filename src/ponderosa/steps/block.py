"""A transformer layer in three parts, so that an engine can run each on just the tokens that need it."""

from typing import Literal, Protocol

from torch import Tensor, nn


class Layer(Protocol):
    """What `TokenStep` runs: rows in, rows out, whatever the axes in front of the last."""

    heads: int

    def queries(self, h: Tensor) -> Tensor:
        """What a token asks `[..., size]`: only tokens that go on need it."""
        ...

    def keys_values(self, h: Tensor) -> Tensor:
        """What a token shows to the others, keys and values side by side `[..., 2 size]`: halted tokens need it, too."""
        ...

    def finish(self, h: Tensor, attended: Tensor) -> Tensor:
        """The token's next state from its state and what it attended to: only tokens that go on need it."""
        ...


class Block(nn.Module):
    """Attention and a feed-forward network, each with a residual connection and a layer norm.

    Args:
        size: of a token's state.
        heads: of the attention.
        mlp_size: of the feed-forward network's hidden layer, by default four times the size.
        norm: "pre" normalises what goes into each part (end such a stack with a `LayerNorm` in the head), "post" the sum.
        dropout: on the output of each part, in training.
    """

    def __init__(
        self, size: int, heads: int, *, mlp_size: int | None = None, norm: Literal["pre", "post"] = "pre", dropout: float = 0.0
    ):
        super().__init__()
        if size % heads:
            raise ValueError(f"size={size}, heads={heads}: the heads must divide the size evenly")
        if norm not in ("pre", "post"):
            raise ValueError(f'norm={norm!r}: choose "pre" or "post"')
        self.size, self.heads, self.norm = size, heads, norm
        self.query, self.key_value, self.out = nn.Linear(size, size), nn.Linear(size, 2 * size), nn.Linear(size, size)
        mlp_size = mlp_size or 4 * size
        self.mlp = nn.Sequential(nn.Linear(size, mlp_size), nn.GELU(), nn.Linear(mlp_size, size))
        self.norm_attention, self.norm_mlp = nn.LayerNorm(size), nn.LayerNorm(size)
        self.dropout = nn.Dropout(dropout)

    def queries(self, h: Tensor) -> Tensor:
        return self.query(self._seen(h))

    def keys_values(self, h: Tensor) -> Tensor:
        return self.key_value(self._seen(h))

    def finish(self, h: Tensor, attended: Tensor) -> Tensor:
        h = h + self.dropout(self.out(attended))
        if self.norm == "pre":
            return h + self.dropout(self.mlp(self.norm_mlp(h)))
        h = self.norm_attention(h)
        return self.norm_mlp(h + self.dropout(self.mlp(h)))

    def _seen(self, h: Tensor) -> Tensor:
        """What the attention's projections see of a state."""
        return self.norm_attention(h) if self.norm == "pre" else h
