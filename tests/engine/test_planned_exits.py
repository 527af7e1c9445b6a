"""Sentences that leave before their tokens' planned depth: what the packed run shows, and what it answers."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import ponderosa as po

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


HEADS = {"mask": lambda: po.ReadOut(SIZE, 3, place="mean"), "first": FirstToken, "all": MeanOfAll}
EXITS = {"confident": lambda: po.ConfidenceExit(threshold=0.3), "patient": lambda: po.PatienceExit(patience=1)}


def pair(head: str, exit: str, step: type = po.TransformerStep, **options: Any) -> tuple[po.Ponder, po.Ponder]:
    """A network that runs packed, and the same one step by step."""
    torch.manual_seed(0)
    made = step(SIZE, 2, layers=LAYERS, **options)
    plan = po.PlannedDepth(unit="token")
    first = po.Ponder(made, po.SentenceExit(plan, EXITS[exit]()), head=HEADS[head]()).double().eval()
    return first, po.Ponder(made, Stepwise(plan, EXITS[exit]()), head=first.head).double().eval()


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
@torch.no_grad()
def test_the_packed_run_answers_as_the_run_step_by_step(step: type, head: str, exit: str) -> None:
    packed, stepwise = pair(head, exit, step)
    given = batch()
    found, expected = packed(**given), stepwise(**given)
    assert torch.equal(found.steps, expected.steps)
    assert (found.steps < given["depth"] * given["mask"]).any()  # some leave early
    torch.testing.assert_close(found.output, expected.output, atol=1e-10, rtol=0)
    torch.testing.assert_close(found.state, expected.state, atol=1e-10, rtol=0)


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
