"""Hyper-modules at work: pools, routers and generators shared by all layers, and what they plan for the examples of a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from ponderosa.steps.modules.base import COMPONENTS, Slot
from ponderosa.steps.modules.contraction import Counts, Mixture, cheapest


class HyperNetwork(nn.Module):
    """A pool of modules for each component, and a generator for each of its dense layers."""

    def __init__(self, pools: Mapping[str, Pool], generators: Mapping[str, nn.Module]):
        super().__init__()
        self.pools, self.generators = nn.ModuleDict(pools), nn.ModuleDict(generators)

    def plan(self, h: Tensor, mask: Tensor | None) -> Plan:
        """What the examples' states `[example, token, size]` choose at this step: pooled over all tokens but padding."""
        if mask is None:
            pooled = h.mean(1)
        else:
            real = mask[..., None]
            pooled = torch.where(real, h, 0.0).sum(1) / real.sum(1).clamp_min(1)
        return Plan(self, {name: pool(pooled) for name, pool in self.pools.items()})


@dataclass(frozen=True)
class Plan:
    """How each example mixes the modules of each component in one step. Weights are generated where they are used, once."""

    network: HyperNetwork
    mixtures: Mapping[str, Mixture]
    counts: Counts = None
    """How many rows each example has, one after the other; None where they are `[example, row, size]`."""

    def packed(self, counts: Counts) -> Plan:
        """The same for rows that are packed in another way."""
        return replace(self, counts=counts)

    def dense(self, slot: Slot, x: Tensor) -> Tensor:
        """Rows through the dense layer that their example has in this place."""
        return self.network.generators[slot](x, self.mixtures[COMPONENTS[slot]], self.counts)


class Generated(nn.Module):
    """The place of a dense layer in a block whose weights are generated: it has none of its own."""

    def __init__(self, slot: Slot):
        super().__init__()
        self.slot = slot

    def forward(self, x: Tensor, plan: Plan | None) -> Tensor:
        if plan is None:
            raise ValueError("the weights of this block are generated for each example and step: run it in its TransformerStep")
        return plan.dense(self.slot, x)


class Pool(nn.Module):
    """Modules as embeddings, each split into a key and a value, and the router that attends from a pooled state to the keys.

    Args:
        size: of the pooled state.
        modules: how many.
        embedding: the size of each, half of it key and half value.
        temperature: the scores are divided by it before the softmax: lower picks, higher blends.
    """

    def __init__(self, size: int, modules: int, embedding: int, temperature: float):
        super().__init__()
        half = embedding // 2
        self.temperature = temperature
        self.query = nn.Sequential(nn.LayerNorm(size), nn.Linear(size, half))
        self.keys = nn.Parameter(torch.randn(modules, half))
        # Half of a value's variance is common to all: then mixtures, even or not, have much the same size as a single one.
        values = torch.randn(1, embedding - half) + torch.randn(modules, embedding - half)
        self.values = nn.Parameter(values / values.mean(0).square().mean().sqrt())

    def forward(self, pooled: Tensor) -> Mixture:
        scores = self.query(pooled) @ self.keys.T / (self.keys.shape[1] ** 0.5 * self.temperature)
        scores = scores.softmax(-1)
        return Mixture(scores, self.values, scores @ self.values)


class Generator(nn.Module):
    """Linear, from a value to a dense layer: its weights `[inputs, outputs]` and its bias, with a dense layer's variance if the
    value's numbers have variance 1."""

    def __init__(self, value: int, inputs: int, outputs: int, *, bias: bool = True, gain: float = 1.0):
        super().__init__()
        bound = gain / (inputs * value) ** 0.5
        self.weight = nn.Parameter(torch.empty(value, inputs, outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(value, outputs).uniform_(-bound, bound)) if bias else None

    def forward(self, x: Tensor, mixture: Mixture, counts: Counts) -> Tensor:
        contract = cheapest(len(mixture.scores), x.shape[:-1].numel(), *mixture.values.shape)
        return contract(x, mixture, self.weight, self.bias, counts)


class FactorisedGenerator(nn.Module):
    """A dense layer that all share, and a generated one of low rank added to it: half of the variance each."""

    def __init__(self, value: int, inputs: int, outputs: int, rank: int):
        super().__init__()
        self.shared = nn.Linear(inputs, outputs)
        with torch.no_grad():
            for parameter in self.shared.parameters():
                parameter.mul_(0.5**0.5)
        self.inward = Generator(value, inputs, rank, bias=False, gain=3**0.5)  # keeps the variance of what comes in
        self.outward = Generator(value, rank, outputs, gain=0.5**0.5)

    def forward(self, x: Tensor, mixture: Mixture, counts: Counts) -> Tensor:
        return self.shared(x) + self.outward(self.inward(x, mixture, counts), mixture, counts)
