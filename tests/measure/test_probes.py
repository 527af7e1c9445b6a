"""Other limits, depths dealt at random, and rank correlation."""

import pytest
import torch
from torch import nn

import ponderosa as po
from ponderosa.measure.evaluate import evaluate
from ponderosa.measure.probes import dealt, think_longer, unit_steps
from ponderosa.measure.ranks import rank_correlation
from ponderosa.tasks import Parity

TASK = Parity(6)


class Countdown(nn.Module):
    """The state is right from the step on that equals the number of places set, and wrong before."""

    hidden_size = 2

    def forward(self, x: torch.Tensor, state: torch.Tensor, n: int) -> torch.Tensor:
        sign = torch.where((x == 1).sum(1) % 2 == 1, 1.0, -1.0)
        right = (x != 0).sum(1) <= n
        return torch.stack([torch.where(right, sign, -sign), sign], 1)


class First(nn.Module):
    def forward(self, state: torch.Tensor) -> torch.Tensor:
        return state[:, :1]


def net(halting: po.Halting, limit: int) -> po.Ponder:
    step = po.CellStep(Countdown(), initial_state=lambda x: x.new_zeros(len(x), 2))
    return po.Ponder(step, halting, head=First(), max_steps=limit)


def places(x: torch.Tensor) -> torch.Tensor:
    return (x != 0).sum(1)


def test_a_network_that_needs_more_steps_gets_better_with_more() -> None:
    chosen = net(po.Fixed(), 2)
    rows = think_longer(chosen, TASK, [1, 3, 6], examples=600)
    for row in rows:
        for level in row["by_difficulty"]:
            assert level["accuracy"] == float(level["difficulty"] <= row["max_steps"])
    assert [row["mean_steps"] for row in rows] == [1, 3, 6]
    assert chosen.max_steps == 2


def test_a_stack_has_no_more_steps() -> None:
    stack = po.Ponder(po.Stack([nn.Linear(6, 6)] * 3), po.Fixed(), head=nn.Linear(6, 1))
    with pytest.raises(ValueError, match="only 3 layers"):
        think_longer(stack, TASK, [4], examples=10)
    assert stack.max_steps == 3


def test_dealing_depths_at_random_costs_what_the_allocation_is_worth() -> None:
    """The plan gives each example just the steps it needs; dealt another's, it is right if that one needed no fewer."""
    chosen = net(po.PlannedDepth(places), 6)
    assert evaluate(chosen, TASK, examples=3000).accuracy == 1
    assert unit_steps(chosen, TASK, 3000).tolist() == [int(n) for n in evaluate(chosen, TASK, examples=3000).difficulty]
    seen = dealt(chosen, TASK, examples=3000)
    assert seen.accuracy == pytest.approx(7 / 12, abs=0.03)  # of two uniform numbers from 1 to 6 the second is no smaller
    assert evaluate(chosen, TASK, examples=3000).fairness() == pytest.approx(1)


def test_rank_correlation() -> None:
    rising = torch.arange(10.0)
    assert rank_correlation(rising, rising.exp()) == pytest.approx(1)
    assert rank_correlation(rising, -rising) == pytest.approx(-1)
    assert rank_correlation(rising, torch.ones(10)) is None
    assert abs(rank_correlation(torch.rand(5000), torch.rand(5000)) or 0) < 0.1
