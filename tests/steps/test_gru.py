"""The fused unroll of the GRU: the numbers of `nn.GRUCell`, and its gradients by hand."""

import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

import ponderosa as po
from ponderosa import native as native_code
from ponderosa.steps import gru_native
from ponderosa.steps.gru_native import NativeUnroll
from ponderosa.steps.gru_unroll import Unroll
from tests.compiler import native

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


OUTPUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "as they are": lambda states: states,
    "transposed": lambda states: states.mT * 2,
    "one step": lambda states: states[2],
    "expanded gradient": lambda states: states.sum(1),
}


@pytest.mark.parametrize("output", OUTPUTS)
def test_gradients_of_all_inputs(output: str) -> None:
    step, x, state = made()
    inputs = [step.prepare(x).detach(), state, step.cell.weight_hh.detach(), step.cell.bias_hh.detach()]
    assert gradcheck(
        lambda *inputs: OUTPUTS[output](Unroll.apply(*inputs, STEPS)), [i.clone().requires_grad_() for i in inputs]
    )


def test_the_graph_can_be_used_twice() -> None:
    step, x, state = made()
    loss = unrolled(step, x, state).square().sum()
    first, second = (torch.autograd.grad(loss, list(step.parameters()), retain_graph=True) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_it_stops_where_it_is_told() -> None:
    step, x, state = made()
    shown: list[int] = []

    def stop(states: Tensor) -> int:
        shown.append(len(states))
        return 5 if len(shown) == 1 else 0

    context = step.prepare(x)
    found = step.unroll(context, state, 1, 20, stop)
    assert shown == [3, 5]
    expected = step.unroll(context, state, 1, 8)
    assert torch.equal(found, expected)
    parameters = list(step.parameters())
    gradients = [torch.autograd.grad(states.square().sum(), parameters, retain_graph=True) for states in (found, expected)]
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


def test_states_of_tokens() -> None:
    step, x, state = made()
    x, state = x.expand(6, *x.shape), state.expand(6, *state.shape)
    found = step.unroll(step.prepare(x), state, 1, 20, lambda states: int(states.shape[1:] != (6, BATCH, HIDDEN)))
    assert found.shape == (3, 6, BATCH, HIDDEN)


def in_float32(batch: int, hidden: int) -> list[Tensor]:
    torch.manual_seed(0)
    shapes = (batch, 3 * hidden), (batch, hidden), (3 * hidden, hidden), (3 * hidden,)
    return [(torch.randn(shape) / hidden**0.5).requires_grad_() for shape in shapes]  # a scale at which no error explodes


def all_numbers(function: type[torch.autograd.Function], inputs: list[Tensor], output: str = "as they are") -> list[Tensor]:
    states = function.apply(*inputs, STEPS)
    outputs = OUTPUTS[output](states if function is Unroll else states[0])
    return [outputs, *torch.autograd.grad(outputs.square().sum(), inputs)]


@native
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("batch", [0, 1, 3, 8, 200])
@pytest.mark.parametrize("hidden", [1, 5, 32, 64, 70])  # whole blocks of a product, parts of them, both
def test_c_computes_what_torch_computes(batch: int, hidden: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_code, "threads", lambda state: threads)
    inputs = in_float32(batch, hidden)
    for state in (inputs[1], torch.zeros_like(inputs[1]).requires_grad_()):
        inputs[1] = state
        torch.testing.assert_close(all_numbers(NativeUnroll, inputs), all_numbers(Unroll, inputs), rtol=1e-5, atol=1e-5)


@native
@pytest.mark.parametrize("output", OUTPUTS)
def test_gradients_from_c(output: str) -> None:
    inputs = in_float32(3, 5)
    torch.testing.assert_close(all_numbers(NativeUnroll, inputs, output), all_numbers(Unroll, inputs, output))


READ: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "both": lambda states, logits: states.square().sum() + logits.sin().sum(),
    "states": lambda states, logits: states.square().sum(),
    "logits": lambda states, logits: logits.sin().sum(),
    "one logit": lambda states, logits: logits[1, 0].sin(),
}


@native
@pytest.mark.parametrize("read", READ)
@pytest.mark.parametrize(("batch", "hidden", "threads"), [(1, 1, 1), (3, 5, 3), (200, 64, 1), (200, 70, 3)])
def test_c_reads_the_states_with_a_gate(
    batch: int, hidden: int, threads: int, read: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The logits and all gradients, the gate's own included, are those of a linear layer on the states."""
    monkeypatch.setattr(native_code, "threads", lambda state: threads)
    gate = (torch.randn(1, hidden) / hidden**0.5).requires_grad_(), torch.randn(1).requires_grad_()
    inputs = in_float32(batch, hidden)

    def numbers(states: Tensor, logits: Tensor) -> list[Tensor]:
        found = torch.autograd.grad(READ[read](states, logits), [*inputs, *gate], allow_unused=True)
        return [states, logits, *(torch.zeros(()) if each is None else each for each in found)]

    expected = Unroll.apply(*inputs, STEPS)
    expected = numbers(expected, torch.nn.functional.linear(expected, *gate).squeeze(-1))
    found = numbers(*NativeUnroll.apply(*inputs, STEPS, None, *gate))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@native
def test_c_is_as_exact_as_torch_and_lets_nan_through() -> None:
    """From a state of zero and without weights, one step is c - z c: with z = 1/2 half of tanh, with c = 1 sigmoid(-x)."""
    x = torch.cat([torch.linspace(-200, 200, 4001), torch.tensor([0.0, torch.inf, -torch.inf, torch.nan])])[:, None]
    zero, large = torch.zeros_like(x), torch.full_like(x, 1000.0)

    def after(z: Tensor, n: Tensor) -> Tensor:
        return NativeUnroll.apply(torch.cat([zero, z, n], 1), zero, torch.zeros(3, 1), torch.zeros(3), 1)[0][0]

    torch.testing.assert_close(2 * after(zero, x), x.tanh(), rtol=0, atol=3e-7, equal_nan=True)
    torch.testing.assert_close(after(x, large), (-x).sigmoid(), rtol=0, atol=1e-7, equal_nan=True)


VIEWS = {"strided": lambda t: torch.stack([t, t], -1)[..., 0], "transposed": lambda t: t.mT.contiguous().mT}


@native
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("where", range(3))
def test_views_as_inputs(where: int, view: str) -> None:
    """C reads the numbers of a tensor in a row, whatever its strides say."""
    inputs = in_float32(3, 5)
    expected = all_numbers(NativeUnroll, inputs)
    inputs[where] = VIEWS[view](inputs[where].detach()).requires_grad_()
    assert not inputs[where].is_contiguous()
    torch.testing.assert_close(all_numbers(NativeUnroll, inputs), expected)


@pytest.mark.parametrize("environment", [{"PONDEROSA_NATIVE": "0"}, {"CC": "/no/such/compiler"}, {"CC": "false"}])
def test_without_a_compiler_torch_does_the_work(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    native_code.compiled.cache_clear(), gru_native.library.cache_clear()
    try:
        assert gru_native.library() is None
        step = po.GRUStep(INPUT, HIDDEN)
        assert step.unroll(step.prepare(torch.ones(BATCH, INPUT)), torch.zeros(BATCH, HIDDEN), 1, STEPS).isfinite().all()
    finally:
        native_code.compiled.cache_clear(), gru_native.library.cache_clear()


def test_importing_compiles_nothing() -> None:
    code = "import ponderosa; from ponderosa.native import compiled; import sys; sys.exit(compiled.cache_info().misses)"
    subprocess.run([sys.executable, "-c", code], check=True)


@native
@pytest.mark.parametrize("threads", [1, 3])
def test_c_stops_when_everyone_is_past_the_level(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that one thread takes through the steps end together; the steps that none of them takes are zero."""
    monkeypatch.setattr(native_code, "threads", lambda state: threads)
    inputs, weight = in_float32(6, 5), torch.randn(1, 5)
    states = Unroll.apply(*inputs, STEPS)
    sums = (states @ weight[0] - 1).sigmoid().cumsum(0)
    level = sums[:, 0].max().item() * 0.6
    monkeypatch.setattr(gru_native, "MARGIN", 0.0)
    found, logits = NativeUnroll.apply(*inputs, STEPS, None, weight, torch.tensor([-1.0]), torch.tensor(level))
    groups = [range(6 * t // threads, 6 * (t + 1) // threads) for t in range(threads)]
    ends = [min(int((sums[:, list(rows)] < level).sum(0).max()) + 1, STEPS) for rows in groups]
    assert len(found) == max(ends)
    expected = torch.zeros_like(states)
    for rows, end in zip(groups, ends, strict=True):
        expected[:end, list(rows)] = states[:end, list(rows)]
    torch.testing.assert_close(found, expected[: max(ends)], rtol=1e-5, atol=1e-5)
    read = torch.where(found.any(-1), found @ weight[0] - 1, 0.0)
    torch.testing.assert_close(logits, read, rtol=1e-5, atol=1e-5)
    gradients = torch.autograd.grad(found.square().sum(), inputs)
    torch.testing.assert_close(gradients, torch.autograd.grad(expected.square().sum(), inputs), rtol=1e-4, atol=1e-5)


HALTINGS = {**{f"ACT {bias}": lambda bias=bias: po.ACT(bias=bias) for bias in (-6.0, -1.0, 3.0)}, "PonderNet": po.PonderNet}


@native
@pytest.mark.parametrize("halting", HALTINGS)
def test_a_mechanism_with_c_is_itself(halting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same steps, weights and gradients as without C, from the first step to the limit."""
    torch.manual_seed(0)
    net = po.Ponder(po.GRUStep(INPUT, 16), HALTINGS[halting](), head=torch.nn.Linear(16, 1), max_steps=9)
    x, y = torch.randn(30, INPUT), torch.randn(30, 1)

    def all_numbers() -> list[Tensor]:
        solution = net(x)
        loss = net.loss(solution, y, torch.nn.functional.mse_loss)
        return [solution.steps, solution.weights, solution.output, *torch.autograd.grad(loss, list(net.parameters()))]

    found = all_numbers()
    monkeypatch.setattr("ponderosa.steps.gru.fits", lambda *_: False)
    monkeypatch.setattr("ponderosa.engine.ledger.fits", lambda *_: False)
    torch.testing.assert_close(found, all_numbers(), rtol=1e-4, atol=1e-6)


def linear_net(halting: po.Halting) -> po.Ponder:
    torch.manual_seed(0)
    return po.Ponder(po.GRUStep(INPUT, 8), halting, head=torch.nn.Linear(8, 1), max_steps=6)


@pytest.mark.parametrize("c", [pytest.param(True, marks=native), False])
def test_second_derivatives_are_an_error(c: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a gradient penalty go through the unroll even where the gradients that come in are constants."""
    if not c:
        monkeypatch.setattr("ponderosa.steps.gru.fits", lambda *_: False)
    net, x = linear_net(po.PonderNet()), torch.randn(3, INPUT, requires_grad=True)
    (gradient,) = torch.autograd.grad(net(x).state.sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match=r"take a torch\.nn\.GRUCell as the step"):
        gradient.square().sum().backward()


@native
@pytest.mark.parametrize("halting", [po.ACT, po.PonderNet])
def test_after_the_backward_pass_a_solution_holds_its_own_numbers_only(halting: type[po.Halting]) -> None:
    """Not the memory of all steps, in which the unroll worked."""
    net, alive, empty = linear_net(halting()), [], torch.Tensor.new_empty

    def watched(self: Tensor, *shape: Any, **options: Any) -> Tensor:
        found = empty(self, *shape, **options)
        if found.numel() == 5 * 6 * 3 * 8:
            alive.append(weakref.ref(found))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "new_empty", watched)
        solution = net(torch.randn(3, INPUT))
    assert len(alive) == 1 and alive[0]() is not None
    net.loss(solution, torch.randn(3, 1), torch.nn.functional.mse_loss).backward()
    assert alive[0]() is None


def test_a_gate_alone_is_trained_by_torch() -> None:
    """Where nothing below needs a gradient, nothing below takes part in the backward pass."""
    net = linear_net(po.PonderNet())
    net.step.requires_grad_(False)
    solution = net(torch.randn(3, INPUT))
    assert solution.weights.requires_grad
    net.halting.requires_grad_(False)
    solution = net(torch.randn(3, INPUT))
    assert solution.output.requires_grad and not solution.weights.requires_grad and not solution.state.requires_grad


def test_a_gate_with_a_forward_of_its_own_is_asked() -> None:
    halting = po.ACT(size=8)
    assert halting.gate is not None
    halting.gate.forward = lambda state: state.new_full((*state.shape[:-1], 1), 20.0)
    assert linear_net(halting)(torch.randn(3, INPUT)).steps.tolist() == [1, 1, 1]


def test_only_a_mechanisms_own_unit_is_read_in_c() -> None:
    """A gate of another kind, or a subclass that decides otherwise, is asked step by step."""

    class Twice(po.ACT):
        def logits(self, state: Tensor, memory: dict, lead: int = 1) -> Tensor:
            return super().logits(state, memory, lead) / 2

    assert po.ACT(size=4).linear_gate() is not None and Twice(size=4).linear_gate() is None
    hooked = po.PonderNet(size=4)
    hooked.gate.register_full_backward_hook(lambda *_: None)
    assert po.PonderNet(size=4).linear_gate() is not None and hooked.linear_gate() is None
    other = po.ACT(size=4)
    other.gate = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    net = po.Ponder(po.GRUStep(INPUT, 4), other, max_steps=5)
    assert net(torch.ones(BATCH, INPUT)).steps.shape == (BATCH,)


@pytest.mark.parametrize(
    "gate", [torch.nn.Linear(8, 1), torch.nn.Linear(4, 1).double(), torch.nn.Linear(4, 3)], ids=["size", "dtype", "outputs"]
)
def test_a_gate_that_does_not_fit_is_an_error(gate: torch.nn.Linear) -> None:
    """C would read past the end of it, or something else than what is meant."""
    halting = po.PonderNet(size=4)
    halting.gate = gate
    with pytest.raises((RuntimeError, ValueError)):
        po.Ponder(po.GRUStep(INPUT, 4), halting, max_steps=5)(torch.ones(BATCH, INPUT))


def test_a_gate_without_bias() -> None:
    halting = po.PonderNet(size=4)
    halting.gate = torch.nn.Linear(4, 1, bias=False)
    net = po.Ponder(po.GRUStep(INPUT, 4), halting, max_steps=5)
    torch.testing.assert_close(net(torch.ones(BATCH, INPUT)).weights.sum(0), torch.ones(BATCH))


def test_a_step_that_is_read_otherwise() -> None:
    class Blind(po.GRUStep):
        def read(self, state: Tensor) -> Tensor:
            return state * 0

    weights = po.Ponder(Blind(INPUT, 4), po.PonderNet(), max_steps=3)(torch.ones(BATCH, INPUT)).weights
    torch.testing.assert_close(weights, torch.tensor([0.5, 0.25, 0.25])[:, None].expand(3, BATCH))


def test_an_unroll_that_knows_nothing_of_stopping() -> None:
    class Plain(po.GRUStep):
        def unroll(self, context: Tensor, state: Tensor, first: int, steps: int) -> Tensor:  # type: ignore[override]
            return super().unroll(context, state, first, steps)

    for halting in (po.PonderNet(), po.ACT(), po.LAC()):
        net = po.Ponder(Plain(INPUT, 4), halting, max_steps=5)
        assert net(torch.ones(BATCH, INPUT)).weights.shape == (5, BATCH)


def test_an_empty_batch_under_act() -> None:
    assert po.Ponder(po.GRUStep(INPUT, 4), po.ACT(), max_steps=5)(torch.ones(0, INPUT)).weights.shape == (5, 0)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("rows", "size"), [(1, 16), (1, 19), (3, 33), (5, 64), (16, 7), (17, 16)])
def test_steps_in_a_row_are_those_one_by_one(rows: int, size: int, threads: int) -> None:
    """In C for few rows; whatever the number of steps, of sizes that no register fits, of tokens as of examples."""
    torch.manual_seed(0)
    step, before = po.GRUStep(4, size), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.no_grad():
            for x in (torch.randn(rows, 4), torch.randn(1, rows, 4)):
                context, state = step.prepare(x), torch.randn(*x.shape[:-1], size)
                given, expected = state.clone(), state
                for steps in range(1, 5):
                    expected = step.advance(context, expected, steps)
                    torch.testing.assert_close(step.advance_by(context, state, 1, steps), expected, rtol=1e-5, atol=1e-6)
                assert torch.equal(state, given)
    finally:
        torch.set_num_threads(before)


def test_steps_in_a_row_ask_a_subclass_and_keep_gradients() -> None:
    class Damped(po.GRUStep):
        def advance(self, context: Tensor, state: Tensor, n: int) -> Tensor:
            return 0.5 * super().advance(context, state, n)

    x, own = torch.randn(2, 4), Damped(4, 8)
    with torch.no_grad():
        context, state = own.prepare(x), own.initial_state(x)
        expected = own.advance(context, own.advance(context, state, 1), 2)
        assert torch.equal(own.advance_by(context, state, 1, 2), expected)
    plain = po.GRUStep(4, 8)
    plain.advance_by(plain.prepare(x), plain.initial_state(x), 1, 3).sum().backward()
    assert plain.cell.weight_hh.grad is not None


def test_an_input_that_all_tokens_share_is_left_to_torch() -> None:
    """C wants an input for each row, of the state's own precision."""
    torch.manual_seed(0)
    step = po.GRUStep(3, 8)
    with torch.no_grad():
        context, state = step.prepare(torch.randn(2, 1, 3)), torch.randn(2, 5, 8)
        expected = step.advance(context, step.advance(context, state, 1), 2)
        assert torch.equal(step.advance_by(context, state, 1, 2), expected)
        assert torch.equal(step.advance_by(context, state, 1, 0), state)


@pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning")
def test_who_follows_torch_follows_steps_in_a_row() -> None:
    """Tracing, batching and forward-mode gradients see torch's operators, not C's numbers."""
    torch.manual_seed(0)
    step = po.GRUStep(3, 8).requires_grad_(False)
    x, other = torch.randn(2, 3), torch.randn(2, 3)

    def last(x: Tensor) -> Tensor:
        return step.advance_by(step.prepare(x), step.initial_state(x), 1, 3)

    with torch.no_grad():
        torch.testing.assert_close(torch.jit.trace(last, (x,))(other), last(other))
        torch.testing.assert_close(torch.vmap(last)(x[:, None]), last(x)[:, None])
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
            assert torch.autograd.forward_ad.unpack_dual(last(dual)).tangent is not None
