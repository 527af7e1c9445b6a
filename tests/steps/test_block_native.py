"""A block in C: what torch computes, and only where nothing of the block is exchanged."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

import ponderosa as po
from ponderosa import native
from ponderosa.steps import block_native
from ponderosa.steps.block_native import Room, fits, library
from tests import compiler

pytestmark = compiler.native


def made(size: int, heads: int, **options: Any) -> po.TransformerStep:
    """A step whose norms and biases are not those of a new one."""
    torch.manual_seed(0)
    step = po.TransformerStep(size, heads, **options)
    for parameter in step.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return step


def all_numbers(step: po.TransformerStep, x: Tensor, steps: int = 2) -> list[Tensor]:
    """The state after some steps, and the gradients."""
    x = x.detach().requires_grad_()
    context, state = step.prepare(x), step.initial_state(x)
    for n in range(1, steps + 1):
        state = step.advance(context, state, n)
    return [state, *torch.autograd.grad(state.sin().sum(), [x, *step.parameters()])]


def in_torch(step: po.TransformerStep, x: Tensor) -> list[Tensor]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_native, "fits", lambda *_: False)
        return all_numbers(step, x)


def check(step: po.TransformerStep, x: Tensor) -> None:
    """As near as torch to what double precision gives: the state, and the gradient of the input and of every parameter."""
    assert fits(step.layers[0], x)
    exact = in_torch(copy.deepcopy(step).double(), x.double())
    for found, torchs, right in zip(all_numbers(step, x), in_torch(step, x), exact, strict=True):
        assert found.dtype == torch.float32
        assert (found - right).norm() <= 3 * (torchs - right).norm() + 1e-6 * right.norm()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("batch, tokens", [(1, 1), (2, 7), (4, 16), (13, 37)])  # the last: whole groups, and a part of one
@pytest.mark.parametrize("size, heads, mlp_size", [(16, 1, 16), (48, 3, 192), (64, 2, 80)])
def test_c_computes_what_torch_computes(
    size: int, heads: int, mlp_size: int, batch: int, tokens: int, norm: Any, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "threads", lambda state: threads)
    monkeypatch.setattr(block_native, "TOGETHER", 100 * size)
    check(made(size, heads, mlp_size=mlp_size, norm=norm), torch.randn(batch, tokens, size))


@pytest.mark.parametrize("many", [False, True], ids=["in the cache", "larger than the cache"])
def test_many_tokens_together(many: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than go into one product of the weights' gradients: 3 of 7 examples of 100 tokens."""
    monkeypatch.setattr(block_native, "CACHE", 0 if many else 10**9)
    monkeypatch.setattr(block_native, "MANY" if many else "TOGETHER", 300 * 32)
    check(made(32, 2), torch.randn(7, 100, 32))


@pytest.mark.parametrize("options", [{"layers": 2}, {"step_signal": 2}, {"recall": True}])
def test_every_kind_of_step(options: dict[str, Any]) -> None:
    check(made(32, 2, **options), torch.randn(2, 5, 32))


def through(step: po.TransformerStep, x: Tensor, weigh: Tensor) -> list[Tensor]:
    """The states after each of three steps, and the gradients of all of them together."""
    x = x.detach().requires_grad_()
    states = step.advance_through(step.prepare(x), step.initial_state(x), 1, 3)
    return [states, *torch.autograd.grad((weigh * states.sin()).sum(), [x, *step.parameters()])]


@pytest.mark.parametrize("options", [{}, {"norm": "post"}, {"layers": 3}, {"step_signal": 3}, {"recall": True}])
def test_steps_in_a_row_are_those_taken_one_by_one(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_native, "TOGETHER", 100 * 32)
    step, x, weigh = made(32, 2, **options), torch.randn(5, 37, 32), torch.randn(3, 5, 37, 1)
    together = through(step, x, weigh)
    monkeypatch.setattr(po.TransformerStep, "advance_through", po.Step.advance_through)
    for found, expected in zip(together, through(step, x, weigh), strict=True):
        assert (found - expected).norm() <= 1e-5 * expected.norm()


class Halved(po.TransformerStep):
    def prepare(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return x

    def advance(self, context: Tensor, state: Tensor, n: Any, active: Tensor | None = None) -> Tensor:
        return super().advance({"mask": None}, state, n).div_(2) + context


class Alternating(po.TransformerStep):
    def layer(self, n: Any) -> Any:
        return self.layers[0] if n % 2 else self.other

    def __init__(self, *given: Any):
        super().__init__(*given)
        self.other = made(*given).layers[0]


def shifted(*given: Any) -> po.TransformerStep:
    step = po.TransformerStep(*given)
    step.seen = lambda state, n, x: state + n
    return step


@pytest.mark.parametrize("kind", [Halved, Alternating, shifted])
def test_a_step_that_advances_in_a_way_of_its_own_is_asked(kind: Callable[..., po.TransformerStep]) -> None:
    torch.manual_seed(0)
    step, x = kind(32, 2), torch.randn(2, 5, 32)
    context = step.prepare(x)
    first = step.advance(context, x, 1)
    assert torch.equal(step.advance_through(context, x, 1, 2), torch.stack([first, step.advance(context, first, 2)]))


def test_a_step_alone_may_be_changed_in_place() -> None:
    step, x = made(32, 2), torch.randn(2, 5, 32)
    step(x).add_(1).sum().backward()
    assert step.layers[0].out.weight.grad is not None


def test_without_a_gradient_nothing_is_kept_of_the_steps() -> None:
    step, x = made(32, 2).requires_grad_(False), torch.randn(2, 5, 32)
    Room.free.clear()
    with torch.no_grad():  # in torch
        expected = step.advance_through(step.prepare(x), x, 1, 9)
    torch.testing.assert_close(step.advance_through(step.prepare(x), x, 1, 9), expected)
    assert len(Room.free) == 1


def test_large_scores_and_activations() -> None:
    step = made(32, 2)
    with torch.no_grad():
        for dense in (step.layers[0].query, step.layers[0].mlp[0]):
            dense.weight *= 30
    check(step, torch.randn(2, 9, 32))


def test_views_as_inputs() -> None:
    step, x = made(32, 2), torch.randn(5, 2, 32)
    torch.testing.assert_close(all_numbers(step, x.transpose(0, 1)), all_numbers(step, x.transpose(0, 1).contiguous()))


def test_nan_stays_with_its_example() -> None:
    x = torch.randn(3, 5, 32)
    x[1, 2, 3] = torch.nan
    after = made(32, 2)(x)
    assert after[1].isnan().all() and after[[0, 2]].isfinite().all()


def test_an_example_does_not_depend_on_its_neighbours() -> None:
    step, x = made(32, 2), torch.randn(4, 5, 32)
    assert torch.equal(step(x)[1:2], step(x[1:2]))


def test_a_graph_keeps_its_numbers_while_others_come_and_go() -> None:
    step, x, other = made(32, 2), torch.randn(2, 5, 32), torch.randn(2, 5, 32)
    expected = all_numbers(step, x)[2:]
    state = step(x, step(x))
    for _ in range(2):
        all_numbers(step, other)
        found = torch.autograd.grad(state.sin().sum(), list(step.parameters()), retain_graph=True)
        assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))


def test_memory_of_one_shape_only_is_held() -> None:
    step = made(32, 2)
    for tokens in range(1, 20):
        all_numbers(step, torch.randn(2, tokens, 32), steps=4)
    assert len(Room.free) <= 4


def hooked(step: po.TransformerStep) -> po.TransformerStep:
    step.layers[0].out.register_forward_hook(lambda *_: None)
    return step


class Own(nn.Linear):
    pass


class Wrapped(Tensor):
    """Passes for a tensor, as quantised weights do."""


def watched(step: po.TransformerStep) -> po.TransformerStep:
    step.layers[0].register_full_backward_hook(lambda *_: None)
    return step


def rectified(step: po.TransformerStep, **options: Any) -> po.TransformerStep:
    step.layers[0].mlp[1] = nn.GELU(**options) if options else nn.ReLU()
    return step


def exchanged(step: po.TransformerStep) -> po.TransformerStep:
    step.layers[0].out = Own(32, 32)
    return step


OTHERS: dict[str, Callable[[], po.TransformerStep]] = {
    "small heads": lambda: made(32, 4), "an odd mlp": lambda: made(32, 2, mlp_size=40),
    "dropout": lambda: made(32, 2, dropout=0.1),
    "FiLM": lambda: made(32, 2, modulation=po.FiLM()), "latents": lambda: made(32, 2, modulation=po.Latents()),
    "hyper-modules": lambda: made(32, 2, modulation=po.HyperModules()), "hooked": lambda: hooked(made(32, 2)),
    "exchanged": lambda: exchanged(made(32, 2)), "watched": lambda: watched(made(32, 2)),
    "relu": lambda: rectified(made(32, 2)), "another gelu": lambda: rectified(made(32, 2), approximate="tanh"),
    "double": lambda: made(32, 2).double(),
}  # fmt: skip


@pytest.mark.parametrize("kind", OTHERS)
def test_torch_does_the_rest(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(block_native, "advance_through")
    step = OTHERS[kind]()
    x = torch.randn(2, 5, 32, dtype=next(step.parameters()).dtype)
    assert not fits(step.layers[0], x)
    assert all_numbers(step, x)[0].isfinite().all()


def test_a_forward_of_its_own_no_bias_and_other_numbers() -> None:
    x, step = torch.randn(2, 5, 32), made(32, 2)
    step.layers[0].out.forward = lambda h: h
    assert not fits(step.layers[0], x)
    step = made(32, 2)
    step.layers[0].out.bias = None
    assert not fits(step.layers[0], x)
    assert not fits(made(32, 2).double().layers[0], x)
    step = made(32, 2)
    step.layers[0].finish = lambda h, attended: h
    assert not fits(step.layers[0], x)
    step = made(32, 2)
    step.layers[0].out.weight = nn.Parameter(Wrapped(step.layers[0].out.weight.detach()))
    assert not fits(step.layers[0], x)
    with FlopCounterMode(display=False) as counter:
        made(32, 2)(x)
    assert counter.get_total_flops() > 0


def test_without_gradients_under_autocast_or_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = made(32, 2).layers[0], torch.randn(2, 5, 32)
    assert fits(layer, x)
    with torch.no_grad():
        assert not fits(layer, x)
    with torch.autocast("cpu"):
        assert not fits(layer, x)
    monkeypatch.setenv("PONDEROSA_NATIVE", "0")
    native.compiled.cache_clear(), library.cache_clear()
    try:
        assert not fits(layer, x)
    finally:
        native.compiled.cache_clear(), library.cache_clear()
