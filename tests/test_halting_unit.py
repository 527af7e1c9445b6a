"""The halting unit: its pseudo-labels by hand, its loss, and what it does once trained."""

import pytest
import torch
from torch import nn

import ponderosa as po
from ponderosa.functional import pseudo_labels
from ponderosa.halting.unit import depth_loss


def test_pseudo_labels_by_hand() -> None:
    outputs = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0]] * 3])
    assert pseudo_labels(outputs, torch.tensor([1, 1, 1])).tolist() == [2, 1, 3]
    assert pseudo_labels(outputs, torch.tensor([0, 0, 1])).tolist() == [1, 2, 3]
    assert pseudo_labels(outputs[:2, 2:], torch.tensor([1])).tolist() == [2]  # never right: the deepest
    losses = torch.tensor([[0.9, 0.5], [0.5, 0.45], [0.2, 0.44]])
    assert pseudo_labels(outputs[:, :2], torch.tensor([0, 0]), losses, penalty=0.1).tolist() == [3, 1]
    depths = [pseudo_labels(outputs[:, :2], torch.tensor([0, 0]), losses, p).sum().item() for p in (0.0, 0.1, 0.5)]
    assert depths == sorted(depths, reverse=True)


def test_its_loss_is_the_cross_entropy_of_its_distribution() -> None:
    torch.manual_seed(0)
    net = po.Ponder(po.GRUStep(3, 8), po.HaltingUnit(4, unit="example"), head=nn.Linear(8, 2), max_steps=4)
    x, y = torch.randn(6, 3), torch.randint(2, (6,))
    solution = net(x)
    torch.testing.assert_close(solution.weights.sum(0), torch.ones(6))
    logits = net.halting.gate(torch.zeros(6, 8))  # h_0 of a GRU is zero
    depth = pseudo_labels(solution.outputs, y)
    torch.testing.assert_close(depth_loss(solution, depth), nn.functional.cross_entropy(logits, depth - 1))
    each = [nn.functional.cross_entropy(output, y) for output in solution.outputs]
    expected = torch.stack(each).mean() + nn.functional.cross_entropy(logits, depth - 1)
    torch.testing.assert_close(net.loss(solution, y, nn.functional.cross_entropy), expected)


@pytest.mark.parametrize("unit", ["example", "token"])
def test_it_learns_the_depth_that_is_needed(unit: str) -> None:
    """Examples whose first number says at which layer the answer appears: the unit names that layer."""
    torch.manual_seed(0)
    needed = torch.randint(1, 5, (64,))
    start = nn.functional.one_hot(needed - 1, 4).float()[:, None].expand(64, 3, 4)
    outputs = torch.stack([torch.stack([-(needed <= n).float(), (needed <= n).float()], -1) for n in range(1, 5)])
    halting = po.HaltingUnit(4, unit=unit, size=4)
    optimizer = torch.optim.Adam(halting.parameters(), lr=0.3)
    shape = torch.Size([64] if unit == "example" else [64, 3])
    for _ in range(60):
        p = halting.begin(start, po.Units(shape))["p"]
        solution = po.Solution(outputs[-1], p.movedim(-1, 0), torch.full(shape, 4), start, outputs)
        optimizer.zero_grad()
        halting.loss(solution, torch.ones(64, dtype=torch.long), nn.functional.cross_entropy).backward()
        optimizer.step()
    named = halting.eval().begin(start, po.Units(shape))["depth"]
    assert (named == (needed if unit == "example" else needed[:, None])).all()


def test_token_level_on_sentence_labels() -> None:
    torch.manual_seed(0)
    net = po.Ponder(
        po.TransformerStep(8, 2, layers=3), po.HaltingUnit(3), head=po.MaxMeanClassifier(8, 2, dropout=0.0)
    )  # fmt: skip
    x, mask, y = torch.randn(4, 5, 8), torch.arange(5) < torch.tensor([[5], [2], [1], [4]]), torch.randint(2, (4,))
    solution = net(x, mask=mask)
    assert solution.outputs.shape == (3, 4, 2)
    net.loss(solution, y, nn.functional.cross_entropy).backward()
    assert net.halting.gate.weight.grad.abs().sum() > 0
    assert net.eval()(x, mask=mask).steps[~mask].sum() == 0


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="layers=0"):
        po.HaltingUnit(0)
    with pytest.raises(ValueError, match="each unit has a depth of its own"):
        po.HaltingUnit(3, unit="batch")
