"""How fast an adaptive classifier answers batches of texts, beside full depth and beside what its rows must take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ponderosa.bench.baselines import ideal
from ponderosa.bench.engine import alternate_for
from ponderosa.bench.timing import one_thread, percentile
from ponderosa.engine.head import answer
from ponderosa.halting import Fixed, PlannedDepth
from ponderosa.measure.cost import cost
from ponderosa.ponder import Ponder
from ponderosa.solution import Solution
from ponderosa.tasks.base import Batch, Task

BATCHES = (1, 4, 8, 15, 32)
TEXTS = 32
"""Texts that are answered in each turn, at least."""
SECONDS = 4.0
"""For the turns of one batch size: as many rounds as fit, four at least."""


def speed_by_batch(
    net: Ponder, task: Task, sizes: Sequence[int] = BATCHES
) -> list[dict[str, Any]]:  # fmt: skip
    """A row for each batch size, of test examples, on one thread."""
    rows = []
    with one_thread():
        for size in sizes:
            batches = [task.batch("test", i, size) for i in range(-(-TEXTS // size))]
            rows.append({"batch": size, **speed(net, batches)})
    return rows


@torch.no_grad()
def speed(net: Ponder, batches: Sequence[Batch]) -> dict[str, Any]:
    """Texts in ten seconds, how many times those of full depth, and the share of what was possible that this is.

    With the time that it takes to estimate the depths, and without (the same depths given). What is possible is the time of
    the embeddings, of the same dense layers on just the rows still needed, and of the heads that have to answer.
    """
    net.eval()
    shape: dict[str, Any] = {"head": net.head, "encoder": net.encoder, "max_steps": net.max_steps}
    known, full = Ponder(net.step, PlannedDepth(unit=net.halting.unit), **shape), Ponder(net.step, Fixed(), **shape)
    known.eval(), full.eval()
    masks = [None if batch.mask is None or bool(batch.mask.all()) else batch.mask for batch in batches]
    found = [net(batch.x, mask=mask) for batch, mask in zip(batches, masks, strict=True)]
    must = [_ideal(known, batch.x, mask, each) for batch, mask, each in zip(batches, masks, found, strict=True)]
    heads = [_heads(net, batch.x, mask, each) for batch, mask, each in zip(batches, masks, found, strict=True)]

    def every(call: Callable[[int], object]) -> Callable[[], object]:
        def run() -> None:
            for i in range(len(batches)):
                call(i)

        return torch.no_grad()(run)

    runs = {
        "ours": every(lambda i: net(batches[i].x, mask=masks[i])),
        "known": every(lambda i: known(batches[i].x, mask=masks[i], depth=found[i].steps)),
        "full": every(lambda i: full(batches[i].x, mask=masks[i])),
        "ideal": every(lambda i: (must[i](), heads[i]())),
    }
    times = {name: percentile(turns) for name, turns in alternate_for(runs, SECONDS).items()}
    spent = [cost(net, batch.x, each, mask=mask) for batch, mask, each in zip(batches, masks, found, strict=True)]
    texts = sum(len(batch.x) for batch in batches)
    return {
        "speed": 10 * texts / times["ours"], "speed_known": 10 * texts / times["known"],
        "full_speed": 10 * texts / times["full"],
        "speedup": times["full"] / times["ours"], "speedup_known": times["full"] / times["known"],
        "possible": times["full"] / times["ideal"], "bound": sum(c.full for c in spent) / sum(c.done for c in spent),
        "share": times["ideal"] / times["ours"], "share_known": times["ideal"] / times["known"],
    }  # fmt: skip


def _ideal(net: Ponder, x: Tensor, mask: Tensor | None, found: Solution) -> Callable[[], object]:
    """The embeddings, and the layers on the rows that need them."""
    assert net.encoder is not None
    encoder, layers = net.encoder, ideal(net, net.encoder(x), mask, found.steps)
    return lambda: (encoder(x), layers())


def _heads(net: Ponder, x: Tensor, mask: Tensor | None, found: Solution) -> Callable[[], object]:
    """The answers that have to be given: one for each text, and where an exit judges them, one at every layer it reached."""
    depths = found.steps if found.steps.ndim == 1 else found.steps.amax(1)
    judged = range(1, int(depths.max()) + 1) if net.halting.reads_output else [int(depths.max())]
    calls = [(n, *_rows(found.state, mask, depths >= n if net.halting.reads_output else depths > 0)) for n in judged]
    head: nn.Module | None = net.head
    return lambda: [answer(head, state, n, shown) for n, state, shown in calls]


def _rows(state: Tensor, mask: Tensor | None, chosen: Tensor) -> tuple[Tensor, Tensor | None]:
    return state[chosen], None if mask is None else mask[chosen]
