"""The contract of a modulation: what a block's dense layers are made of, and what stands between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from torch import nn

if TYPE_CHECKING:
    from ponderosa.steps.modules.plan import HyperNetwork

Slot = Literal["query", "key_value", "out", "up", "down"]
"""A dense layer of a block."""
COMPONENTS: Mapping[Slot, str] = {"query": "qkv", "key_value": "qkv", "out": "out", "up": "mlp", "down": "mlp"}
"""What each belongs to: the attention's projections, its output, or the feed-forward network."""


class Modulation:
    """How the layers of a `TransformerStep` are modulated: a choice with its options, which holds no parameters itself.

    One object serves all layers of a step. The defaults are those of a plain block.
    """

    def dense(self, slot: Slot, inputs: int, outputs: int) -> nn.Module:
        """The dense layer of one block in this place: rows `[..., inputs]` to `[..., outputs]`."""
        return nn.Linear(inputs, outputs)

    def between(self, size: int, heads: int, layers: int) -> Sequence[nn.Module | None]:
        """A further part of each block, between attention and feed-forward: rows in, what is added to them out."""
        return [None] * layers

    def network(self, shapes: Mapping[Slot, tuple[int, int]]) -> HyperNetwork | None:
        """What generates weights for the dense layers of all blocks, given their inputs and outputs."""
        return None


def chosen(**components: bool) -> frozenset[str]:
    """The names of the components that are on: at least one."""
    if not any(components.values()):
        raise ValueError(f"{', '.join(f'{name}={on}' for name, on in components.items())}: nothing is left to modulate")
    return frozenset(name for name, on in components.items() if on)
