"""Sentences that leave before their tokens' planned depth: what the packed run shows, and what it answers."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

import ponderosa as po
from ponderosa.adapt.heads import MaxMeanClassifier, max_mean, max_mean_packed

LAYERS, SIZE = 5, 8


class Stepwise(po.SentenceExit):
    """The same mechanism without the packed run: whoever overrides `update` loses `latest`."""

    def update(self, n: Any, state: Tensor, output: Tensor | None, memory: Any) -> Any:
        return super().update(n, state, output, memory)


class FirstToken(nn.Module):
    """A head that knows nothing of padding, and answers with a view of the state."""

    def forward(self, state: Tensor) -> Tensor:
        return state[:, 0]


class MeanOfAll(nn.Module):
    def forward(self, state: Tensor) -> Tensor:
        return state.mean(1)


class Normed(po.TransformerStep):
    """A step that shows something else than its state."""

    def read(self, state: Tensor) -> Tensor:
        return nn.functional.layer_norm(state, state.shape[-1:])


HEADS = {
    "mask": lambda: po.ReadOut(SIZE, 3, place="mean"), "first": FirstToken, "all": MeanOfAll,
    "pools": lambda: MaxMeanClassifier(SIZE, 3),
}  # fmt: skip
EXITS = {"confident": lambda: po.ConfidenceExit(threshold=0.3), "patient": lambda: po.PatienceExit(patience=1)}


STEPS: dict[str, dict[str, Any]] = {
    "stack": {"layers": LAYERS}, "frozen": {"layers": LAYERS, "frozen_kv": True}, "tied": {"recall": True},
}  # fmt: skip


def pair(
    head: str, exit: str, step: type = po.TransformerStep, kind: torch.dtype = torch.float64, options: str = "stack"
) -> tuple[po.Ponder, po.Ponder]:  # fmt: skip
    """A network that runs packed, and the same one step by step."""
    torch.manual_seed(0)
    made = step(SIZE, 2, **STEPS[options])
    plan = po.PlannedDepth(unit="token")
    first = po.Ponder(made, po.SentenceExit(plan, EXITS[exit]()), head=HEADS[head](), max_steps=LAYERS).to(kind).eval()
    return first, po.Ponder(made, Stepwise(plan, EXITS[exit]()), head=first.head, max_steps=LAYERS).to(kind).eval()


def batch(examples: int = 6, tokens: int = 7) -> dict[str, Tensor]:
    """Examples of all lengths, one of them without a token."""
    draw = torch.Generator().manual_seed(1)
    mask = torch.arange(tokens) < torch.randint(1, tokens + 1, (examples, 1), generator=draw)
    mask[-1] = False
    depth = torch.randint(1, LAYERS + 1, (examples, tokens), generator=draw)
    return {"x": torch.randn(examples, tokens, SIZE, generator=draw).double(), "mask": mask, "depth": depth}


@pytest.mark.parametrize("exit", EXITS)
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("step", [po.TransformerStep, Normed])
@pytest.mark.parametrize("empty", [False, True])
@torch.no_grad()
def test_the_packed_run_answers_as_the_run_step_by_step(empty: bool, step: type, head: str, exit: str) -> None:
    packed, stepwise = pair(head, exit, step)
    given = batch()
    given["mask"][-1] = not empty
    found, expected = packed(**given), stepwise(**given)
    assert torch.equal(found.steps, expected.steps)
    assert (found.steps < given["depth"] * given["mask"]).any()  # some leave early
    torch.testing.assert_close(found.output, expected.output, atol=1e-10, rtol=0)
    torch.testing.assert_close(found.state, expected.state, atol=1e-10, rtol=0)


@pytest.mark.parametrize("options", STEPS)
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@torch.no_grad()
def test_in_every_kind_of_step_and_number(options: str, kind: torch.dtype) -> None:
    """In single precision heads pool in C."""
    packed, stepwise = pair("pools", "confident", kind=kind, options=options)
    given = batch(20)
    given["mask"][-1], given["x"] = True, given["x"].to(kind)
    found, expected = packed(**given), stepwise(**given)
    assert torch.equal(found.steps, expected.steps)
    torch.testing.assert_close(found.output, expected.output)
    for i in range(3):  # neighbours change nothing
        alone = packed(**{name: value[i : i + 1] for name, value in given.items()})
        torch.testing.assert_close(alone.output[0], found.output[i])


@torch.no_grad()
def test_an_exit_that_looks_at_the_state_is_shown_it() -> None:
    class Still(po.ConfidenceExit):
        def update(self, n: Any, state: Tensor, output: Tensor | None, memory: Any) -> Any:
            return None, state.mean((1, 2)) > 0, memory

    torch.manual_seed(0)
    step = po.TransformerStep(SIZE, 2, layers=LAYERS)
    net = po.Ponder(step, po.SentenceExit(po.PlannedDepth(4, unit="token"), Still()), head=MaxMeanClassifier(SIZE, 3)).eval()
    x = torch.randn(6, 4, SIZE)
    assert torch.equal(net(x).steps, net(x, engine="unroll").steps)


@torch.no_grad()
def test_a_head_that_overrides_forward_alone_does_not_pool() -> None:
    class Smaller(MaxMeanClassifier):
        def forward(self, state: Tensor, mask: Tensor | None = None) -> Tensor:
            return super().forward(state, mask) / 10

    torch.manual_seed(0)
    step = po.TransformerStep(SIZE, 2, layers=LAYERS)
    halting = po.SentenceExit(po.PlannedDepth(4, unit="token"), po.ConfidenceExit(threshold=0.3))
    net = po.Ponder(step, halting, head=Smaller(SIZE, 3)).eval()
    x = torch.randn(6, 4, SIZE)
    torch.testing.assert_close(net(x).output, net(x, engine="unroll").output)


@torch.no_grad()
def test_what_a_head_was_shown_stays_as_it_was() -> None:
    packed, stepwise = pair("mask", "confident")
    given = {key: value[:1] for key, value in batch().items()}
    packed.halting.exit.threshold = stepwise.halting.exit.threshold = 1.0
    kept: dict[int, list[Tensor]] = {}
    for net in (packed, stepwise):
        shown = kept.setdefault(id(net), [])
        hooks = [h.register_forward_pre_hook(lambda _, args, shown=shown: shown.append(args[0])) for h in net.head]
        net(**given)
        for hook in hooks:
            hook.remove()
    ours, theirs = kept.values()
    assert len(ours) > 1
    for one, other in zip(ours, theirs, strict=False):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=0)


def test_gradients_go_through() -> None:
    packed, stepwise = pair("mask", "confident")
    grads = []
    for net in (packed, stepwise):
        given = batch()
        given["mask"][-1] = True
        x = given.pop("x").requires_grad_()
        net(x, **given).output.sum().backward()
        grads.append(x.grad)
    torch.testing.assert_close(*grads, atol=1e-10, rtol=0)


def test_a_verdict_of_another_shape_is_refused() -> None:
    class Wrong(po.SentenceExit):
        def update(self, n: Any, state: Tensor, output: Tensor | None, memory: Any) -> Any:
            share, done, memory = super().update(n, state, output, memory)
            return share, done[:, 0], memory

        def latest(self, memory: Any) -> Tensor | None:
            return super().latest(memory)

    net = po.Ponder(
        po.TransformerStep(SIZE, 2, layers=2), Wrong(po.PlannedDepth(2, unit="token"), po.ConfidenceExit()),
        head=po.ReadOut(SIZE, 3, place="mean"),
    ).eval()  # fmt: skip
    with pytest.raises(ValueError, match=r"spoke for units \[3\], but there are tokens \[3, 4\]"):
        net(torch.randn(3, 4, SIZE))


def test_a_head_that_somebody_listens_to_is_called() -> None:
    """What pools packed tokens is no call of the module: hooks would not see it."""
    packed, _ = pair("pools", "confident")
    called: list[int] = []
    packed.head[0].register_forward_hook(lambda *_: called.append(1))
    given = batch()
    given["mask"][-1] = True
    packed(**given)
    assert called


def test_a_head_is_called_where_somebody_listens_to_all_modules() -> None:
    packed, _ = pair("pools", "confident")
    called: set[nn.Module] = set()
    given = batch()
    given["mask"][-1] = True
    hook = register_module_forward_hook(lambda module, *_: called.add(module))
    try:
        packed(**given)
    finally:
        hook.remove()
    assert packed.head[0] in called


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])  # in C, and by torch
@torch.no_grad()
def test_pooling_of_packed_tokens(kind: torch.dtype) -> None:
    counts = torch.tensor([3, 1, 5])
    mask = torch.arange(5) < counts[:, None]
    state = torch.randn(3, 5, 20, generator=torch.Generator().manual_seed(0)).to(kind)
    torch.testing.assert_close(max_mean_packed(state[mask], counts.numpy()), max_mean(state, mask))
    torch.testing.assert_close(max_mean_packed(state[1, :1], counts[1:2].numpy()), max_mean(state, mask)[1:2])


@pytest.mark.parametrize("place", range(4))
@torch.no_grad()
def test_pooling_does_not_hide_what_is_not_a_number(place: int) -> None:
    rows = torch.randn(6, 20)
    rows[place, 3] = torch.nan
    pooled = max_mean_packed(rows, np.array([4, 2]))
    assert pooled[0, [3, 23]].isnan().all() and pooled.isnan().sum() == 2


def test_counts_that_do_not_fit_are_refused_before_c_sees_them() -> None:
    for wrong in ([3, 2, 5], [4, 0, 5]):
        with pytest.raises(ValueError, match="9 rows for examples of"):
            max_mean_packed(torch.randn(9, 20), np.array(wrong))
