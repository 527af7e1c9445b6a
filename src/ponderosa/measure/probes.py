"""What else to ask a trained network: how it does with other limits, and what its choice of depths is worth."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from ponderosa.halting import AnyOf, PlannedDepth
from ponderosa.measure.batches import batches, first_parameter, to_like
from ponderosa.measure.evaluate import Evaluation, evaluate, example_steps
from ponderosa.ponder import Ponder
from ponderosa.tasks.base import Task


def think_longer(net: Ponder, task: Task, limits: Iterable[int], *, examples: int = 10_000) -> list[dict[str, Any]]:
    """Accuracy and steps with each limit on the number of steps, above or below that of training.

    Only where a step is repeated can there be more of them than in training: a stack of layers has no more.
    """
    trained, rows = net.max_steps, []
    try:
        for limit in limits:
            net.max_steps = limit
            seen = evaluate(net, task, examples=examples)
            rows.append({
                "max_steps": limit, "accuracy": seen.accuracy, "mean_steps": seen.mean_steps,
                "by_difficulty": seen.by_difficulty(),
            })  # fmt: skip
    finally:
        net.max_steps = trained
    return rows


def dealt(net: Ponder, task: Task, *, examples: int = 10_000, seed: int = 0) -> Evaluation:
    """A control: every example gets the depths that the network chose for another one, drawn at random.

    The steps dealt are as many in all and spread the same, so what accuracy falls by is what the allocation is worth. An
    example that is dealt more steps than it would take stops where it would have: its answer is there.
    """
    steps = unit_steps(net, task, examples)
    order = torch.randperm(len(steps), generator=torch.Generator().manual_seed(seed))
    halting = AnyOf([net.halting, PlannedDepth(unit=net.halting.unit)])
    control = Ponder(net.step, halting, head=net.head, max_steps=net.max_steps, encoder=net.encoder)
    return evaluate(control, task, examples=examples, depth=steps[order])


@torch.no_grad()
def unit_steps(net: Ponder, task: Task, examples: int) -> Tensor:
    """The steps of every unit of the first test examples `[examples]` or `[examples, token]`."""
    like = first_parameter(net)
    net.eval()
    found = []
    for batch in batches(task, "test", examples, 1000):
        batch = to_like(batch, like)
        found.append(net(batch.x, mask=batch.mask, key=batch.key).steps)
    return torch.cat(found)


@torch.no_grad()
def expected_steps(net: Ponder, task: Task, examples: int) -> Tensor:
    """The steps of the first test examples `[examples]`: where a mechanism draws them, their expectation instead of a draw."""
    like = first_parameter(net)
    net.eval()
    net.halting.train()  # PonderNet then tells its whole distribution; the rest of the network stays as it is
    found = [
        example_steps(net(batch.x, mask=batch.mask, key=batch.key, engine="unroll"))
        for batch in (to_like(batch, like) for batch in batches(task, "test", examples, 1000))
    ]
    net.eval()
    return torch.cat(found)
