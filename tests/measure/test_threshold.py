"""The exit's threshold: the lowest that keeps the accuracy it was allowed to lose."""

import pytest
import torch
from torch import Tensor, nn

import ponderosa as po
from ponderosa.measure.threshold import choose_threshold
from ponderosa.tasks.base import Batch, Split, Task


class Graded(Task):
    """Ten examples whose number is their own input; a scripted network is sure of some of them too early."""

    input_size, output_size = 1, 2

    def batch(self, split: Split, index: int, size: int, seed: int = 0) -> Batch:
        rows = torch.arange(10)[index * size : (index + 1) * size]
        x = rows[:, None, None].float()
        return Batch(x, torch.ones_like(rows), rows, rows, torch.ones(len(rows), 1, dtype=torch.bool))

    def score(self, output: Tensor, target: Tensor) -> Tensor:
        return (output.argmax(-1) == target).float()


class Answers(nn.Module):
    """At layer n the odds of the right class are those of a table: example 0 is wrong, and 0.8 sure, at layer 1."""

    def __init__(self, layer: int):
        super().__init__()
        self.layer = layer

    def forward(self, state: Tensor) -> Tensor:
        number = state[:, 0, 0]
        wrong = (number == 0) & (self.layer == 1)
        sure = torch.where(number == 0, 0.8, 0.95)
        p = torch.where(wrong, 1 - sure, sure)
        return torch.stack([1 - p, p], -1).log()


class Same(nn.Module):
    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        return state


def test_the_lowest_threshold_that_costs_no_more_than_allowed() -> None:
    leave = po.ConfidenceExit()
    step = po.CellStep(Same(), initial_state=lambda x: x, size=1)
    halting = po.SentenceExit(po.PlannedDepth(2, unit="token"), leave)
    net = po.Ponder(step, halting, head=nn.ModuleList(Answers(n) for n in (1, 2)), max_steps=2)
    tried = choose_threshold(net, leave, Graded(), examples=10, allowed_loss=0.0)
    assert tried[0] == {"threshold": 1.0, "accuracy": 1.0, "loss": 0.0, "depth": 2.0}
    assert leave.threshold == 0.85  # at 0.8 the first example leaves with a wrong answer
    choose_threshold(net, leave, Graded(), examples=10, allowed_loss=0.101)
    assert leave.threshold == 0.6
    with pytest.raises(ValueError, match="0 or more"):
        choose_threshold(net, leave, Graded(), examples=10, allowed_loss=-0.1)


class Luck(Answers):
    """Example 0 leaves with a wrong answer at 0.9, and example 1, which is wrong in the end, with a right one."""

    def forward(self, state: Tensor) -> Tensor:
        number, first = state[:, 0, 0], self.layer == 1
        wrong = (number == 0) & first | (number == 1) & (not first)
        p = torch.where(wrong, 0.08, 0.92)
        return torch.stack([1 - p, p], -1).log()


class Certain(Answers):
    """So sure of a wrong answer at layer 1 that its probability is 1, rounded."""

    def forward(self, state: Tensor) -> Tensor:
        odds = torch.full_like(state[:, 0, 0], 40.0)
        return torch.stack([odds, -odds] if self.layer == 1 else [-odds, odds], -1)


def test_no_exit_is_no_exit_however_sure_an_answer_is() -> None:
    leave = po.ConfidenceExit()
    step = po.CellStep(Same(), initial_state=lambda x: x, size=1)
    halting = po.SentenceExit(po.PlannedDepth(2, unit="token"), leave)
    net = po.Ponder(step, halting, head=nn.ModuleList(Certain(n) for n in (1, 2)), max_steps=2)
    tried = choose_threshold(net, leave, Graded(), examples=10, allowed_loss=0.05)
    assert (tried[0]["accuracy"], tried[0]["depth"]) == (1.0, 2.0)
    assert {row["loss"] for row in tried[1:]} == {1.0}


def test_answers_that_turn_right_do_not_hide_those_that_turn_wrong() -> None:
    leave = po.ConfidenceExit()
    step = po.CellStep(Same(), initial_state=lambda x: x, size=1)
    halting = po.SentenceExit(po.PlannedDepth(2, unit="token"), leave)
    net = po.Ponder(step, halting, head=nn.ModuleList(Luck(n) for n in (1, 2)), max_steps=2)
    tried = choose_threshold(net, leave, Graded(), examples=10, allowed_loss=0.05)
    assert {row["accuracy"] for row in tried} == {tried[0]["accuracy"]}
    assert leave.threshold == 0.93
