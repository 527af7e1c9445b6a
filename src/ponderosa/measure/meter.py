"""The operations of many settings on much data: the network's parts are priced once for each shape of input."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ponderosa.measure.cost import real_tokens, unhalted
from ponderosa.measure.price import Prices
from ponderosa.ponder import Ponder
from ponderosa.tasks.base import Batch
from ponderosa.tree import leaves, tree_map


class Meter:
    """Gathers the steps that examples took, and says what they cost (see `measure.cost`)."""

    def __init__(self, net: Ponder):
        self.net = net
        self.kinds: dict[Any, _Kind] = {}

    def add(self, batch: Batch, steps: Tensor) -> None:
        """The steps `[settings, batch]` or `[settings, batch, token]` of a batch."""
        kind = (*(leaf.shape[1:] for leaf in leaves(batch.x)), batch.mask is None)
        if kind not in self.kinds:
            self.kinds[kind] = _Kind(self.net, batch)
        self.kinds[kind].add(batch, steps)

    def each(self) -> list[float]:
        """Operations per example, at each setting."""
        return self._mean([kind.each() for kind in self.kinds.values()])

    def full(self) -> float:
        """Operations per example at full depth without halting."""
        return self._mean([[kind.full()] for kind in self.kinds.values()])[0]

    def _mean(self, totals: list[list[float]]) -> list[float]:
        examples = sum(len(real) for kind in self.kinds.values() for real in kind.real)
        return [sum(of_setting) / examples for of_setting in zip(*totals, strict=True)]


class _Kind:
    """Inputs of one shape."""

    def __init__(self, net: Ponder, batch: Batch):
        self.net = net
        given = {"state": None, "mask": batch.mask, "key": batch.key, "depth": None}
        self.prices = Prices(net, net.full_depth, batch.x, given)
        self.full_prices = Prices(unhalted(net, net.full_depth), net.full_depth, batch.x, given)
        one = tree_map(lambda leaf: leaf[:1], batch.x)
        self.read = net.step.read(net.begin(one)[1])
        self.steps: list[Tensor] = []
        self.real: list[Tensor] = []

    def add(self, batch: Batch, steps: Tensor) -> None:
        self.steps.append(steps)
        self.real.append(real_tokens(self.read.expand(len(batch), *self.read.shape[1:]), batch.mask))

    def each(self) -> list[float]:
        real, steps = torch.cat(self.real), torch.cat(self.steps, 1)
        if steps.ndim == 2 and bool(real.all()) and (table := self._by_depth(real[:1])) is not None:
            return table[steps].sum(1).tolist()
        return [float(self.prices.total(taken, real)) for taken in steps]

    def _by_depth(self, one: Tensor) -> Tensor | None:
        """What an example costs that takes 0, 1, ... steps, where they cost the same in any company; None if they do not."""

        def cost(rows: int, depth: int) -> int:
            return self.prices.total(torch.full((rows,), depth, device=one.device), one.expand(rows, -1))

        depths = range(1, self.net.full_depth + 1)
        if any(cost(3, depth) != 3 * cost(1, depth) for depth in (1, self.net.full_depth)):
            return None
        return torch.tensor([0, *(cost(1, depth) for depth in depths)], dtype=torch.float64, device=one.device)

    def full(self) -> float:
        real = torch.cat(self.real)
        return float(self.full_prices.total(torch.full((len(real),), self.net.full_depth, device=real.device), real))
