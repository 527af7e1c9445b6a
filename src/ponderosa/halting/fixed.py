"""Fixed depth: every unit takes every step. The baseline."""

import torch
from torch import Tensor

from ponderosa.halting.base import Halting, Memory, Units, Verdict
from ponderosa.halting.losses import Criterion, answer_loss
from ponderosa.solution import Solution

FOREVER = torch.iinfo(torch.int64).max
"""More steps than any limit allows."""


class Fixed(Halting):
    """Never halts before the step limit; the answer is the last state.

    >>> import ponderosa as po, torch
    >>> net = po.Ponder(po.GRUStep(4, 8), po.Fixed(), max_steps=3)
    >>> net(torch.ones(2, 4)).steps
    tensor([3, 3])
    """

    hard = True
    adaptive = False
    on_host = True

    def begin(self, state: Tensor, units: Units) -> Memory:
        return {"depth": torch.full(units.shape, FOREVER, device=state.device)}

    def depths(self, memory: Memory) -> Tensor:
        return memory["depth"]

    def update(self, n: int | Tensor, state: Tensor, output: Tensor | None, memory: Memory) -> Verdict:
        return None, memory["depth"] <= n, memory

    def loss(self, solution: Solution, target: Tensor, criterion: Criterion) -> Tensor:
        return answer_loss(solution, target, criterion)
