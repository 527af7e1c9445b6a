"""A halting of your own: stop a unit when its state hardly moves. Every engine and every command runs it."""

import torch
from torch import Tensor, nn

import ponderosa as po
from ponderosa.halting.base import Memory, Verdict
from ponderosa.halting.losses import Criterion, answer_loss


class StopWhenStill(po.Halting):
    """Halts a unit when its state moved less than `least` since the step before."""

    hard = True  # the answer is one step's alone, so halted units need not be computed, in training either

    def __init__(self, *, least: float = 0.1):
        super().__init__()
        self.least = least

    def begin(self, state: Tensor, units: po.Units) -> Memory:
        return {"before": state}

    def update(self, n: int | Tensor, state: Tensor, output: Tensor | None, memory: Memory) -> Verdict:
        done = (state - memory["before"]).norm(dim=-1) < self.least
        return None, done, {"before": state}

    def loss(self, solution: po.Solution, target: Tensor, criterion: Criterion) -> Tensor:
        return answer_loss(solution, target, criterion)


if __name__ == "__main__":
    torch.manual_seed(0)
    net = po.Ponder(po.GRUStep(8, 32), StopWhenStill(least=0.2), head=nn.Linear(32, 1), max_steps=20).eval()
    print(net(torch.randn(100, 8)))
