"""Depths known in advance: the answers and gradients of the masked unroll, for every kind of step; the input stays as it is."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import ponderosa as po
from ponderosa.engine.planned_tokens import stays_packed

LIMIT, TOKENS, SIZE = 5, 6, 16
STEPS: dict[str, dict[str, Any]] = {
    "stack": {"layers": LIMIT},
    "tied": {},
    "norms after": {"layers": LIMIT, "norm": "post"},
    "signal": {"step_signal": LIMIT},
    "recall": {"recall": True},
    "recall and signal": {"recall": True, "step_signal": LIMIT},
    "frozen": {"layers": LIMIT, "frozen_kv": True},
    "tied, frozen": {"frozen_kv": True},
    "hyper": {"modulation": po.HyperModules(modules=3)},
}


def net_of(kind: str, unit: Any) -> po.Ponder:
    torch.manual_seed(0)
    net = po.Ponder(po.TransformerStep(SIZE, 2, **STEPS[kind]), po.PlannedDepth(unit=unit), max_steps=LIMIT).double()
    for parameter in net.parameters():
        nn.init.normal_(parameter, std=0.5)
    return net


def given(batch: int, unit: str, padded: bool) -> dict[str, Any]:
    """Depths from 0 to beyond the limit, one example that ends at once, lengths from no token to all."""
    draw = torch.Generator().manual_seed(batch)
    x = torch.randn(batch, TOKENS, SIZE, dtype=torch.float64, generator=draw)
    mask = torch.arange(TOKENS) < torch.randint(0, TOKENS + 1, (batch, 1), generator=draw) if padded else None
    units = (batch, TOKENS) if unit == "token" else (batch,)
    depth = torch.randint(0, LIMIT + 3, units, generator=draw)
    depth[2:3] = 1
    return {"x": x, "mask": mask, "depth": depth}


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("unit", ["token", "example"])
@pytest.mark.parametrize("kind", STEPS)
def test_as_masked(kind: str, unit: str, padded: bool) -> None:
    net = net_of(kind, unit)
    for batch in (0, 1, 2, 7):
        told = given(batch, unit, padded)
        before = told["x"].clone()
        found = {}
        for engine in ("compact", "unroll"):
            x = told["x"].detach().requires_grad_()
            solution = net(**{**told, "x": x}, engine=engine)
            real = torch.ones(batch, TOKENS, dtype=torch.bool) if told["mask"] is None else told["mask"]
            state = solution.state[real]
            gradients = torch.autograd.grad(state.square().sum(), [x, *net.parameters()], allow_unused=True)
            gradients = tuple(torch.zeros(()) if g is None or not g.any() else g for g in gradients)
            with torch.no_grad():
                again = net(**told, engine=engine).state[real]
            found[engine] = [solution.steps, solution.weights, state, again, *gradients]
        torch.testing.assert_close(found["compact"], found["unroll"], rtol=1e-9, atol=1e-9)
        assert torch.equal(told["x"], before)


def test_which_steps_stay_packed() -> None:
    class Own(po.TransformerStep):
        def advance(self, context: Any, state: Tensor, n: Any, active: Tensor | None = None) -> Tensor:
            return super().advance(context, state, n, active)

    assert stays_packed(po.TransformerStep(SIZE, 2))
    assert not stays_packed(Own(SIZE, 2))
    assert not stays_packed(po.TransformerStep(SIZE, 2, modulation=po.HyperModules(modules=3)))
    assert not stays_packed(po.GRUStep(SIZE, SIZE))


def test_nested_states() -> None:
    torch.manual_seed(0)
    net = po.Ponder(nn.LSTMCell(3, 4), po.PlannedDepth(), max_steps=LIMIT).double().eval()
    told = {"x": torch.randn(6, 3, dtype=torch.float64), "depth": torch.tensor([2, 5, 1, 1, 9, 3])}
    compact, unroll = (net(**told, engine=engine) for engine in ("compact", "unroll"))
    torch.testing.assert_close((compact.state, compact.steps), (unroll.state, unroll.steps), rtol=0, atol=1e-10)


class Sooner:
    def update(self, n: Any, *given: Any) -> Any:
        share, done, memory = super().update(n, *given)  # type: ignore[misc]
        return share, done | (n >= 2), memory


@pytest.mark.parametrize("engine", ["compact", "unroll"])
def test_who_overrides_update_is_asked(engine: Any) -> None:
    class Mixed(Sooner, po.PlannedDepth):
        pass

    class Own(po.PlannedDepth):
        def update(self, n: Any, *given: Any) -> Any:
            return Sooner.update(Mixed(), n, *given)

    for halting in (Mixed(), Own()):
        net = po.Ponder(po.GRUStep(3, 4), halting, max_steps=LIMIT).eval()
        assert net(torch.randn(3, 3), depth=torch.tensor([1, 4, 5]), engine=engine).steps.tolist() == [1, 2, 2]


def test_small_numbers_and_large_limits() -> None:
    """Depths of a byte, whose negatives would be large."""
    net = po.Ponder(po.GRUStep(3, 4), po.PlannedDepth(), max_steps=300).eval()
    x, depth = torch.randn(3, 3), torch.tensor([1, 4, 3])
    small, usual = net(x, depth=depth.to(torch.uint8)), net(x, depth=depth)
    assert small.steps.dtype == torch.int64
    torch.testing.assert_close((small.state, small.steps), (usual.state, usual.steps))


@pytest.mark.parametrize("wrong", [torch.ones(3, 1, dtype=torch.long), torch.ones(3), torch.tensor(2)], ids=str)
def test_a_plan_that_does_not_fit_the_units(wrong: Tensor) -> None:
    class Loose(po.PlannedDepth):
        def depths(self, memory: Any) -> Tensor:
            return wrong

    net = po.Ponder(po.GRUStep(3, 4), Loose(2), max_steps=LIMIT).eval()
    with pytest.raises(ValueError, match=r"a whole number for each of the units \[3\] is needed"):
        net(torch.randn(3, 3))


def test_numbers_in_a_context() -> None:
    class Scaled(po.GRUStep):
        def prepare(self, x: Tensor, mask: Tensor | None = None) -> Any:
            return {"x": super().prepare(x), "scale": 0.5, "shift": torch.tensor(0.1)}

        def advance(self, context: Any, state: Tensor, n: int) -> Tensor:
            return super().advance(context["x"], state, n) * context["scale"] + context["shift"]

    net = po.Ponder(Scaled(3, 4), po.PlannedDepth(), max_steps=LIMIT).eval()
    told = {"x": torch.randn(3, 3), "depth": torch.tensor([1, 4, 2])}
    alone = [net(told["x"][i : i + 1], depth=told["depth"][i : i + 1]).state for i in range(3)]
    torch.testing.assert_close(net(**told).state, torch.cat(alone))


def test_layers_may_keep_what_they_are_given() -> None:
    """A layer that gives back its input, and a hook that keeps it."""

    class Same(nn.Module):
        heads = 1

        def queries(self, h: Tensor) -> Tensor:
            return h

        def keys_values(self, h: Tensor) -> Tensor:
            seen.append((h, h.clone()))
            return torch.cat([h, h], -1)

        def finish(self, h: Tensor, attended: Tensor) -> Tensor:
            return h if len(seen) < 2 else h + attended

    seen: list[tuple[Tensor, Tensor]] = []
    x, depth = torch.randn(3, 4, SIZE), torch.tensor([[1, 2, 3, 1], [2, 2, 1, 1], [3, 3, 1, 3]])
    for layers in ([Same(), Same(), Same()], Same()):
        for frozen in (False, True):
            seen.clear()
            net = po.Ponder(
                po.TokenStep(layers, size=SIZE, frozen_kv=frozen), po.PlannedDepth(unit="token"), max_steps=3
            ).eval()
            with torch.no_grad():
                net(x, depth=depth)
            assert seen and all(torch.equal(kept, then) for kept, then in seen)


def test_an_input_that_is_broadcast() -> None:
    net = net_of("recall", "token").eval()
    told = given(3, "token", False)
    told |= {"x": told["x"][:, :1], "state": torch.randn(3, TOKENS, SIZE, dtype=torch.float64)}
    compact, unroll = (net(**told, engine=engine).state for engine in ("compact", "unroll"))
    torch.testing.assert_close(compact, unroll, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", ["stack", "tied"])
def test_an_example_without_a_token_has_no_neighbours(kind: str) -> None:
    net = net_of(kind, "example")
    told = given(3, "example", True)
    told["mask"][1] = False
    together = net(**told).state[1]
    alone = net(**{name: value[1:2] for name, value in told.items()}).state[0]
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-12)


def test_an_input_of_a_subclass_s_own_is_not_recalled() -> None:
    class Own(po.TransformerStep):
        def prepare(self, x: Tensor, mask: Tensor | None = None) -> Any:
            return {**super().prepare(x, mask), "input": x}

    torch.manual_seed(0)
    own, plain = Own(SIZE, 2), po.TransformerStep(SIZE, 2)
    plain.load_state_dict(own.state_dict())
    x = torch.randn(2, TOKENS, SIZE)
    assert torch.equal(own(x), plain(x))
