"""Random depth: trained to be right at any of several depths, so that thinking longer does no harm."""

import torch
from torch import Tensor

from ponderosa.halting.base import Halting, Memory, Units, Verdict
from ponderosa.halting.fixed import FOREVER
from ponderosa.halting.losses import Criterion, answer_loss
from ponderosa.keys import uniform
from ponderosa.solution import Solution


class RandomDepth(Halting):
    """In training each example ends at a random step from `least` to `most`; in evaluation at the step limit.

    A network whose answer must be right after any of these steps learns to keep it, and so can go on for longer than it
    was trained to: give `net(x, max_steps=...)` more.

    Args:
        least: the first step at which an example may end in training.
        most: the last one.
        seed: of the draws, which are made from it and the example's key.

    >>> import ponderosa as po
    >>> net = po.Ponder(po.GRUStep(4, 8), po.RandomDepth(2, 4), max_steps=6)
    >>> net(torch.randn(100, 4)).steps.unique(), net.eval()(torch.ones(2, 4)).steps
    (tensor([2, 3, 4]), tensor([6, 6]))
    """

    hard = True
    adaptive = False
    on_host = True

    def __init__(self, least: int, most: int, *, seed: int = 0):
        super().__init__()
        if not 1 <= least <= most:
            raise ValueError(f"least={least}, most={most}: 1 <= least <= most is needed")
        self.least, self.most, self.seed = least, most, seed

    def begin(self, state: Tensor, units: Units) -> Memory:
        if not self.training:
            return {"depth": torch.full(units.shape, FOREVER, device=state.device)}
        draw = uniform(self.seed, units.key.to(state.device))
        return {"depth": self.least + (draw * (self.most - self.least + 1)).long()}

    def depths(self, memory: Memory) -> Tensor:
        return memory["depth"]

    def update(self, n: int | Tensor, state: Tensor, output: Tensor | None, memory: Memory) -> Verdict:
        return None, memory["depth"] <= n, memory

    def loss(self, solution: Solution, target: Tensor, criterion: Criterion) -> Tensor:
        return answer_loss(solution, target, criterion)
