"""A transformer layer in three parts, so that an engine can run each on just the tokens that need it."""

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from torch import Tensor, nn

from ponderosa.steps.modules.base import Modulation, Slot
from ponderosa.steps.modules.plan import Generated, Plan


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


class Planned:
    """A layer whose parts take a plan, together with this step's: to all others a layer like any."""

    def __init__(self, layer: Any, plan: Plan):
        self.layer, self.plan, self.heads = layer, plan, layer.heads

    def queries(self, h: Tensor) -> Tensor:
        return self.layer.queries(h, self.plan)

    def keys_values(self, h: Tensor) -> Tensor:
        return self.layer.keys_values(h, self.plan)

    def finish(self, h: Tensor, attended: Tensor) -> Tensor:
        return self.layer.finish(h, attended, self.plan)


def shapes(size: int, mlp_size: int) -> Mapping[Slot, tuple[int, int]]:
    """The inputs and outputs of a block's dense layers."""
    return {
        "query": (size, size), "key_value": (size, 2 * size), "out": (size, size),
        "up": (size, mlp_size), "down": (mlp_size, size),
    }  # fmt: skip


class Block(nn.Module):
    """Attention and a feed-forward network, each with a residual connection and a layer norm.

    Args:
        size: of a token's state.
        heads: of the attention.
        mlp_size: of the feed-forward network's hidden layer, by default four times the size.
        norm: "pre" normalises what goes into each part (end such a stack with a `LayerNorm` in the head), "post" the sum.
        dropout: on the output of each part, in training.
        modulation: what the dense layers are made of.
        between: a further part with a residual connection and a norm, between the two: rows to rows.
    """

    def __init__(
        self, size: int, heads: int, *, mlp_size: int | None = None, norm: Literal["pre", "post"] = "pre", dropout: float = 0.0,
        modulation: Modulation | None = None, between: nn.Module | None = None,
    ):  # fmt: skip
        super().__init__()
        if size % heads:
            raise ValueError(f"size={size}, heads={heads}: the heads must divide the size evenly")
        if norm not in ("pre", "post"):
            raise ValueError(f'norm={norm!r}: choose "pre" or "post"')
        self.size, self.heads, self.norm = size, heads, norm
        dense = (modulation or Modulation()).dense
        made = {slot: dense(slot, *shape) for slot, shape in shapes(size, mlp_size or 4 * size).items()}
        self.query, self.key_value, self.out = made["query"], made["key_value"], made["out"]
        self.mlp = nn.Sequential(made["up"], nn.GELU(), made["down"])
        self.norm_attention, self.norm_mlp = nn.LayerNorm(size), nn.LayerNorm(size)
        self.between, self.norm_between = between, nn.Identity() if between is None else nn.LayerNorm(size)
        self.dropout = nn.Dropout(dropout)

    def queries(self, h: Tensor, plan: Plan | None = None) -> Tensor:
        return _run(self.query, self._seen(h), plan)

    def keys_values(self, h: Tensor, plan: Plan | None = None) -> Tensor:
        return _run(self.key_value, self._seen(h), plan)

    def finish(self, h: Tensor, attended: Tensor, plan: Plan | None = None) -> Tensor:
        h = h + self.dropout(_run(self.out, attended, plan))
        if self.norm == "post":
            h = self.norm_attention(h)
        if self.between is not None:
            h = self._add(self.norm_between, self.between, h, plan)
        return self._add(self.norm_mlp, self.mlp, h, plan)

    def _add(self, norm: nn.Module, part: nn.Module, h: Tensor, plan: Plan | None) -> Tensor:
        """A part with its residual connection and its norm."""
        if self.norm == "pre":
            return h + self.dropout(_run(part, norm(h), plan))
        return norm(h + self.dropout(_run(part, h, plan)))

    def _seen(self, h: Tensor) -> Tensor:
        """What the attention's projections see of a state."""
        return self.norm_attention(h) if self.norm == "pre" else h


def _run(part: nn.Module, x: Tensor, plan: Plan | None) -> Tensor:
    """Rows through a part of a block, whose dense layers may be planned."""
    if plan is None:
        return part(x)
    if isinstance(part, nn.Sequential):
        for each in part:
            x = _run(each, x, plan)
        return x
    return part(x, plan) if isinstance(part, Generated) else part(x)
