"""The fused unroll of the GRU: the numbers of `nn.GRUCell`, and its gradients by hand."""

import subprocess
import sys

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

import ponderosa as po
from ponderosa.steps import gru_native
from ponderosa.steps.gru_in_place import UnrollInPlace
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


@pytest.mark.parametrize("function", [Unroll, UnrollInPlace])
@pytest.mark.parametrize("output", ["as it is", "transposed", "one step", "expanded gradient"])
def test_gradients_of_all_inputs(output: str, function: type[torch.autograd.Function]) -> None:
    step, x, state = made()
    inputs = [step.prepare(x).detach(), state, step.cell.weight_hh.detach(), step.cell.bias_hh.detach()]

    def outputs(*inputs: Tensor) -> Tensor:
        states = function.apply(*inputs, STEPS)
        return {"transposed": states.mT * 2, "one step": states[2], "expanded gradient": states.sum(1)}.get(output, states)

    assert gradcheck(outputs, [i.clone().requires_grad_() for i in inputs])


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


native = pytest.mark.skipif(gru_native.library() is None, reason="there is no C compiler")


def in_float32(batch: int, hidden: int) -> list[Tensor]:
    torch.manual_seed(0)
    shapes = (batch, 3 * hidden), (batch, hidden), (3 * hidden, hidden), (3 * hidden,)
    return [(torch.randn(shape) / hidden**0.5).requires_grad_() for shape in shapes]  # a scale at which no error explodes


def all_numbers(function: type[torch.autograd.Function], inputs: list[Tensor]) -> list[Tensor]:
    states = function.apply(*inputs, STEPS)
    return [states, *torch.autograd.grad(states.square().sum(), inputs)]


@native
@pytest.mark.parametrize("batch", [0, 1, 3, 700])  # 700 examples of 64 numbers are more than one thread's share
@pytest.mark.parametrize("hidden", [1, 5, 64])
def test_c_computes_what_torch_computes(batch: int, hidden: int, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = in_float32(batch, hidden)
    functional, in_c = all_numbers(Unroll, inputs), all_numbers(UnrollInPlace, inputs)
    monkeypatch.setattr(gru_native, "fits", lambda state: False)
    in_place = all_numbers(UnrollInPlace, inputs)
    for others in (functional, in_place):
        torch.testing.assert_close(in_c, others, rtol=1e-5, atol=1e-5)


@native
def test_c_is_as_exact_as_torch_and_lets_nan_through() -> None:
    x = torch.cat([torch.linspace(-200, 200, 4001), torch.tensor([0.0, torch.inf, -torch.inf, torch.nan])])[:, None]
    gates, results = torch.cat([x, x, torch.zeros_like(x)], 1), [torch.empty_like(x) for _ in range(2)]
    gru_native.activate(gates, -2 * x, torch.zeros_like(x), *results)
    torch.testing.assert_close(gates[:, :1], x.sigmoid(), rtol=2e-6, atol=1e-37, equal_nan=True)
    torch.testing.assert_close(results[0], x.tanh(), rtol=0, atol=3e-7, equal_nan=True)


VIEWS = {"strided": lambda t: torch.stack([t, t], -1)[..., 0], "transposed": lambda t: t.mT.contiguous().mT}


@native
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("where", range(3))
def test_views_as_inputs(where: int, view: str) -> None:
    """C reads the numbers of a tensor in a row, whatever its strides say."""
    inputs = in_float32(3, 5)
    expected = all_numbers(UnrollInPlace, inputs)
    inputs[where] = VIEWS[view](inputs[where].detach()).requires_grad_()
    assert not inputs[where].is_contiguous()
    torch.testing.assert_close(all_numbers(UnrollInPlace, inputs), expected)


@pytest.mark.parametrize("environment", [{"PONDEROSA_NATIVE": "0"}, {"CC": "/no/such/compiler"}, {"CC": "false"}])
def test_without_a_compiler_torch_does_the_work(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    gru_native.library.cache_clear()
    try:
        assert gru_native.library() is None
        step = po.GRUStep(INPUT, HIDDEN)
        assert step.unroll(step.prepare(torch.ones(BATCH, INPUT)), torch.zeros(BATCH, HIDDEN), 1, STEPS).isfinite().all()
    finally:
        gru_native.library.cache_clear()


def test_importing_compiles_nothing() -> None:
    code = "import ponderosa; from ponderosa.steps.gru_native import library; import sys; sys.exit(library.cache_info().misses)"
    subprocess.run([sys.executable, "-c", code], check=True)
