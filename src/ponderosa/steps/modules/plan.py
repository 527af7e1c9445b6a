"""Hyper-modules at work: pools, routers and generators shared by all layers, and what they plan for the examples of a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from torch import Tensor, nn

from ponderosa.steps.modules.base import COMPONENTS, Slot
from ponderosa.steps.modules.contraction import Counts, Mixture
from ponderosa.steps.modules.generator import Generator
from ponderosa.steps.modules.pool import Pool
from ponderosa.tree import token_mean


class HyperNetwork(nn.Module):
    """A pool of modules for each component, and a generator for each of its dense layers."""

    def __init__(self, pools: Mapping[str, Pool], generators: Mapping[Slot, Generator]):
        super().__init__()
        self.pools = nn.ModuleDict(pools)
        self.generators: Mapping[Slot, Generator] = nn.ModuleDict(generators)  # type: ignore[arg-type, assignment]

    def plan(self, h: Tensor, mask: Tensor | None) -> Plan:
        """What the examples' states `[example, token, size]` choose at this step: pooled over all tokens but padding."""
        pooled = token_mean(h, mask)
        mixtures = {name: pool(pooled) for name, pool in self.pools.items()}
        return Plan({slot: (generator, mixtures[COMPONENTS[slot]]) for slot, generator in self.generators.items()})

    def operations(self, examples: int, rows: Mapping[Slot, int]) -> int:
        """What generated layers take in a step of so many examples, given the rows that go through each of them."""
        return sum(generator.operations(examples, rows[slot]) for slot, generator in self.generators.items())


@dataclass(frozen=True)
class Plan:
    """What the hyper-modules have chosen for each example in one step. Weights are generated where they are used, once."""

    layers: Mapping[Slot, tuple[Generator, Mixture]]
    counts: Counts = None
    """How many rows each example has, one after the other; None where they are `[example, row, size]`."""

    def packed(self, counts: Counts) -> Plan:
        """The same for rows that are packed in another way."""
        return replace(self, counts=counts)

    def dense(self, slot: Slot, x: Tensor) -> Tensor:
        """Rows through the dense layer that their example has in this place."""
        generator, mixture = self.layers[slot]
        return generator(x, mixture, self.counts)


class Generated(nn.Module):
    """The place of a dense layer in a block whose weights are generated: it has none of its own."""

    def __init__(self, slot: Slot):
        super().__init__()
        self.slot = slot

    def forward(self, x: Tensor, plan: Plan | None = None) -> Tensor:
        if plan is None:
            raise ValueError("the weights of this block are generated for each example and step: run it in its TransformerStep")
        return plan.dense(self.slot, x)
