"""The ledger in C: torch's numbers and gradients, whatever the units do, and step by step as in one go."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import ponderosa as po
from ponderosa.engine import ledger as ledger_code
from ponderosa.engine import ledger_native
from ponderosa.engine.ledger import Ledger, settled, weigh
from ponderosa.engine.ledger_native import Settle, Weigh
from ponderosa.halting.base import Units
from tests import compiler

pytestmark = compiler.native


USED = [("weights",), ("total",), ("spent",), ("weights", "total"), ("weights", "total", "spent")]
"""What a loss depends on."""


def in_torch(shares: Tensor, dones: Tensor, left: Tensor | None, values: Tensor, *account: object) -> tuple[Tensor, ...]:
    weights, *after = settled(shares, dones, left, *account)  # type: ignore[arg-type]
    return weights, weigh(weights, values), *after


def account(units: int, alive: Tensor) -> tuple[Tensor, ...]:
    """A ledger's columns after some steps."""
    return alive, torch.rand(units).requires_grad_(), torch.randint(0, 4, (units,))


def numbers(function: object, inputs: list[Tensor], arguments: list[object], used: tuple[str, ...]) -> list[Tensor]:
    """What comes out, and the gradients of what is differentiable in it."""
    weights, total, alive, spent, steps = function(*arguments)  # type: ignore[operator]
    scale = torch.linspace(1, 2, weights.numel()).reshape(weights.shape)
    loss = {"weights": (scale * weights).sum(), "total": total.square().sum(), "spent": (spent * spent).sum()}
    total_loss = sum(loss[name] for name in used)
    return [
        weights,
        total,
        alive,
        spent,
        steps,
        *torch.autograd.grad(total_loss, inputs, allow_unused=True, materialize_grads=True),
    ]


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 5), st.booleans(), st.booleans(), st.sampled_from(USED))
def test_settle(seed: int, steps: int, units: int, limit: bool, told: bool, used: tuple[str, ...]) -> None:
    torch.manual_seed(seed)
    shares = (torch.rand(steps, units) * 0.6).requires_grad_()
    left = torch.rand(units).requires_grad_() if told else None
    alive, spent, taken = account(units, torch.rand(units) < 0.8)
    values = torch.randn(steps, units, 1 if seed % 2 else 3).requires_grad_()
    arguments = [shares, torch.rand(steps, units) < 0.3, left, values, alive, spent, taken, limit]
    inputs = [shares, spent, values, *([left] if left is not None else [])]
    found, expected = (numbers(function, inputs, arguments, used) for function in (Settle.apply, in_torch))
    torch.testing.assert_close(found, expected)


def test_settle_without_shares() -> None:
    """A hard mechanism names none: the step at which a unit ends has it all."""
    dones = torch.tensor([[False, True], [True, False], [False, False]])
    values = torch.randn(3, 2, requires_grad=True)
    account = torch.ones(2, dtype=torch.bool), torch.zeros(2), torch.zeros(2, dtype=torch.long), True
    weights, total, alive, spent, steps = Settle.apply(None, dones, None, values, *account)
    assert torch.autograd.grad(total.sum(), values)[0].tolist() == weights.tolist()
    assert total.tolist() == [values[1, 0].item(), values[0, 1].item()]
    assert weights.tolist() == [[0, 1], [1, 0], [0, 0]]
    assert (alive.tolist(), spent.tolist(), steps.tolist()) == ([False, False], [0, 0], [2, 1])


@settings(deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_in_parts_as_in_one_go(seed: int, parts: list[int]) -> None:
    torch.manual_seed(seed)
    count = sum(parts)
    shares, dones = torch.rand(count, 3) / count, torch.rand(count, 3) < 0.2
    whole, split = (Ledger(Units(torch.Size([3])), count, like=shares, in_c=True) for _ in range(2))
    values = torch.randn(count, 3, 2)
    expected, total = whole.settle(shares, dones, None, values)
    inputs = zip(*(each.split(parts) for each in (shares, dones, values)), strict=True)
    found = [split.settle(s, d, None, v) for s, d, v in inputs]
    torch.testing.assert_close(torch.cat([weights for weights, _ in found]), expected)
    torch.testing.assert_close(sum(part for _, part in found), total)
    torch.testing.assert_close([split.steps, split.alive], [whole.steps, whole.alive])
    torch.testing.assert_close(expected.sum(0), torch.ones(3))


@pytest.mark.parametrize("shape", [(), (1,), (5,), (16,), (67,), (3, 40)])
@pytest.mark.parametrize("units", [(1,), (4,), (2, 3)])
def test_weigh(units: tuple[int, ...], shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    weights, values = torch.rand(3, *units).requires_grad_(), torch.randn(3, *units, *shape).requires_grad_()

    def all_numbers() -> list[Tensor]:
        total = weigh(weights, values, in_c=True)
        return [total, *torch.autograd.grad(total.square().sum(), [weights, values])]

    found = all_numbers()
    monkeypatch.setattr(ledger_code, "fits", lambda *_: False)
    torch.testing.assert_close(found, all_numbers())


def test_what_weighs_nothing_may_be_anything() -> None:
    values = torch.tensor([[[1.0, 2.0]], [[torch.inf, torch.nan]]])
    assert Weigh.apply(torch.tensor([[1.0], [0.0]]), values).tolist() == [[1, 2]]


def test_views() -> None:
    """C reads the numbers of a tensor in a row, whatever its strides say."""
    weights, values = torch.rand(4, 3), torch.randn(4, 3, 5)
    expected = (weights[..., None] * values).sum(0)
    torch.testing.assert_close(Weigh.apply(weights.mT.contiguous().mT, values.mT.contiguous().mT), expected)
    total = Weigh.apply(weights.requires_grad_(), values)
    torch.testing.assert_close(torch.autograd.grad(total.sum(), weights)[0], values.sum(-1))  # an expanded gradient


def test_other_numbers_are_torchs_business(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_native, "_call", None)
    weights, values = torch.rand(2, 3, dtype=torch.float64), torch.randn(2, 3, 4, dtype=torch.float64)
    torch.testing.assert_close(weigh(weights, values, in_c=True), (weights[..., None] * values).sum(0))


def test_what_c_cannot_read_is_torchs_business(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verdicts that are not bool, one number left for all, a leaf that lacks the units' axes."""
    monkeypatch.setattr(ledger_native, "_call", None)
    dones = torch.tensor([[0, 1], [1, 0]])
    ledger = Ledger(Units(torch.Size([2])), 2, like=torch.ones(1), in_c=True)
    assert ledger.settle(None, dones, None, torch.ones(2, 2))[0].tolist() == [[0, 1], [1, 0]]
    ledger = Ledger(Units(torch.Size([2])), 1, like=torch.ones(1), in_c=True)
    never = torch.zeros(1, 2) > 0
    assert ledger.settle(torch.ones(1, 2), never, torch.tensor(0.5), torch.ones(1, 2))[0].tolist() == [[0.5, 0.5]]
    assert weigh(torch.ones(3, 4), torch.ones(3, 1, 2), in_c=True).tolist() == [[3, 3]] * 4


def test_weights_without_gradients() -> None:
    values = torch.randn(3, 2, 4, requires_grad=True)
    weights = torch.rand(3, 2)
    Weigh.apply(weights, values).sum().backward()
    torch.testing.assert_close(values.grad, weights[..., None].expand(3, 2, 4))


@pytest.mark.parametrize("halting", [po.ACT(), po.PonderNet(), po.LAC()], ids=lambda h: type(h).__name__)
def test_second_derivatives(halting: po.Halting) -> None:
    """Where the step has them, the engine has."""
    step = po.CellStep(torch.nn.RNNCell(3, 3), initial_state=torch.zeros_like, size=3)
    net = po.Ponder(step, halting, head=torch.nn.Linear(3, 1), max_steps=3)
    x = torch.randn(2, 3, requires_grad=True)
    loss = net.loss(net(x, engine="unroll" if halting.hard else None), torch.zeros(2, 1), torch.nn.functional.mse_loss)
    (first,) = torch.autograd.grad(loss, x, create_graph=True)
    first.square().sum().backward()
