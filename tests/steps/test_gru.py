"""The fused unroll of the GRU: the numbers of `nn.GRUCell`, and its gradients by hand."""

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

import ponderosa as po
from ponderosa.steps.gru_unroll import Unroll

BATCH, INPUT, HIDDEN, STEPS = 3, 2, 4, 5


def made() -> tuple[po.GRUStep, Tensor, Tensor]:
    torch.manual_seed(0)
    step = po.GRUStep(INPUT, HIDDEN).double()
    return step, torch.randn(BATCH, INPUT).double(), torch.randn(BATCH, HIDDEN).double()


def unrolled(step: po.GRUStep, x: Tensor, state: Tensor) -> Tensor:
    return step.unroll(step.prepare(x), state, 1, STEPS)


def test_it_is_the_cell_of_torch() -> None:
    step, x, state = made()
    for found in unrolled(step, x, state):
        state = step.cell(x, state)
        torch.testing.assert_close(found, state, rtol=0, atol=1e-12)


@pytest.mark.parametrize("output", ["as it is", "transposed", "one step", "expanded gradient"])
def test_gradients_of_all_inputs(output: str) -> None:
    step, x, state = made()
    inputs = [step.prepare(x).detach(), state, step.cell.weight_hh.detach(), step.cell.bias_hh.detach()]

    def function(*inputs: Tensor) -> Tensor:
        states = Unroll.apply(*inputs, STEPS)
        return {"transposed": states.mT * 2, "one step": states[2], "expanded gradient": states.sum(1)}.get(output, states)

    assert gradcheck(function, [i.clone().requires_grad_() for i in inputs])


def test_the_graph_can_be_used_twice() -> None:
    step, x, state = made()
    loss = unrolled(step, x, state).square().sum()
    first, second = (torch.autograd.grad(loss, list(step.parameters()), retain_graph=True) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_it_stops_where_it_is_told() -> None:
    step, x, state = made()
    shown: list[int] = []

    def stop(states: Tensor) -> bool:
        shown.append(len(states))
        return sum(shown) >= 6

    context = step.prepare(x)
    found = step.unroll(context, state, 1, 20, stop)
    assert shown == [3, 1, 2]
    expected = step.unroll(context, state, 1, 6)
    assert torch.equal(found, expected)
    parameters = list(step.parameters())
    gradients = [torch.autograd.grad(states.square().sum(), parameters, retain_graph=True) for states in (found, expected)]
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


def test_states_of_tokens() -> None:
    step, x, state = made()
    x, state = x.expand(6, *x.shape), state.expand(6, *state.shape)
    found = step.unroll(step.prepare(x), state, 1, 20, lambda states: states.shape[1:] == (6, BATCH, HIDDEN))
    assert found.shape == (3, 6, BATCH, HIDDEN)
