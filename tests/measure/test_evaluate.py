"""Evaluation and cost against closed forms."""

import pytest
import torch
from torch import nn

import ponderosa as po
from ponderosa.measure.batches import share
from ponderosa.measure.cost import cost, microseconds, operations
from ponderosa.measure.evaluate import Evaluation, evaluate
from ponderosa.tasks import Parity

TASK = Parity(6)


def net(halting, steps=5, size=8):
    torch.manual_seed(0)
    return po.Ponder(po.GRUStep(6, size), halting, head=nn.Linear(size, 1), max_steps=steps)


def closed_form(steps: float, size: int = 8) -> float:
    """Two operations per multiply-add: the input's projection once, the state's at each step, the head once."""
    return 2 * (6 * 3 * size + steps * size * 3 * size + size * 1)


def test_operations_at_full_depth():
    assert operations(net(po.Fixed()), TASK.batch("test", 0, 64)) == closed_form(5)


def test_operations_are_those_really_done():
    plan, size = po.PlannedDepth(lambda x: 1 + (x != 0).sum(1) % 4), 512  # so large that leaving halted examples behind pays
    chosen, batch = net(plan, size=size), TASK.batch("test", 0, 64)
    steps = chosen.eval()(batch.x).steps.float().mean().item()
    assert 1 < steps < 5
    assert operations(chosen, batch) == pytest.approx(closed_form(steps, size))
    assert operations(chosen, batch, full_depth=True) == closed_form(5, size)


def test_operations_include_halted_examples_that_a_small_network_carries_along():
    """Where they halt as they go; those whose depths are known beforehand leave at once."""

    class Undecided(po.PlannedDepth):
        def depths(self, memory):
            return None

    for halting, at_once in ((po.PlannedDepth, True), (Undecided, False)):
        chosen, batch = net(halting(lambda x: 1 + (x != 0).sum(1) % 4)), TASK.batch("test", 0, 64)
        needed = cost(chosen, batch.x)
        assert needed.done == pytest.approx(closed_form(chosen.eval()(batch.x).steps.float().mean().item()))
        done = operations(chosen, batch)
        assert done == pytest.approx(needed.done) if at_once else needed.done < done <= needed.full == closed_form(5)


def test_time_is_measured_for_each_network():
    times = microseconds([net(po.Fixed()), net(po.LAC())], TASK.batch("test", 0, 16), repeats=3)
    assert len(times) == 2
    assert all(t > 0 for pair in times for t in pair)


def test_every_example_counts_once():
    seen = evaluate(net(po.LAC()), TASK, examples=250, batch_size=100)
    assert len(seen.score) == len(seen.steps) == 250
    assert sum(row["examples"] for row in seen.by_difficulty()) == 250
    assert sum(seen.histogram()) == pytest.approx(1)


def test_the_shares_of_two_devices_make_up_the_whole():
    chosen = net(po.PonderNet())
    whole = evaluate(chosen, TASK, examples=200, batch_size=100)
    parts = [evaluate(chosen, TASK, examples=200, batch_size=100, rank=rank, ranks=2) for rank in (0, 1)]
    assert torch.equal(torch.cat([p.steps for p in parts]).sort()[0], whole.steps.sort()[0])
    batch = TASK.batch("test", 0, 7)
    assert torch.equal(share(batch, 1, 2).x, batch.x[1::2])


def test_training_mode_is_left_as_it_was():
    chosen = net(po.ACT())
    evaluate(chosen.train(), TASK, examples=10)
    assert chosen.training


@pytest.mark.parametrize(
    ("steps", "adaptive", "said"),
    [
        ([5.0, 5.0], True, "limit of 5"),
        ([1.0, 1.0], True, "first step"),
        ([3.0, 3.0], True, "does not adapt"),
        ([1.0, 5.0], True, None),
        ([5.0, 5.0], False, None),
    ],
)
def test_collapse(steps, adaptive, said):
    zeros = torch.zeros(2)
    found = Evaluation(zeros, torch.tensor(steps), zeros, max_steps=5, adaptive=adaptive).collapse()
    assert (said is None and found is None) or said in found
