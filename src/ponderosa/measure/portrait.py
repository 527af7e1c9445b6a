"""All that a report shows of a trained network, as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ponderosa.measure.allocation import allocation
from ponderosa.measure.batches import Data, read, right, select
from ponderosa.measure.cost import evaluating, microseconds
from ponderosa.measure.extremes import extremes
from ponderosa.measure.frontier import frontier
from ponderosa.measure.sweep import network
from ponderosa.ponder import Ponder
from ponderosa.tasks.base import Batch, Task

BATCH_SIZES = (1, 4, 16, 64, 256)


def portrait(
    models: Sequence[Any], data: Data, name: str, *, task: Task | None = None, settings: int = 20, progress: bool = False
) -> dict[str, Any]:
    """The figures of a network, trained with one seed or several, on the examples of a data loader.

    The task says how good an answer is, what the classes are called and how an example is shown; without one, the likeliest
    class is the answer.
    """
    nets = [network(model) for model in models]
    net, score, names = nets[0], right if task is None else task.score, None if task is None else task.labels
    seen = list(read(data, net))
    front = frontier(nets, seen, name=name, settings=settings, score=score, time=True, progress=progress)
    spent = allocation(net, seen, score=score, progress=progress)
    with evaluating(net):
        sizes, shown = by_batch_size(net, seen[0]), extremes(net, seen[0], spent.seen.steps, score, task)
    own = front.own
    return {
        **spent.seen.summary(), "name": name, "adaptive": net.halting.adaptive, "accuracy": own["accuracy"],
        "mean_steps": own["mean_steps"], "operations": own["operations"], "full_operations": front.full_operations,
        "microseconds": own["microseconds"], "full_microseconds": sizes[-1]["full_microseconds"],
        "seeds": len(nets), "parameters": sum(p.numel() for p in net.parameters()), "frontier": front.record(),
        "allocation": spent.summary() | {"by_class": list(spent.by_class(names)), "by_depth": list(spent.by_depth())},
        "by_batch_size": sizes, "extremes": shown,
    }  # fmt: skip


def by_batch_size(net: Ponder, batch: Batch) -> list[dict[str, Any]]:
    """Microseconds per example as the network halts and at full depth, in batches of several sizes."""
    rows = []
    for size in sorted({min(size, len(batch)) for size in BATCH_SIZES}):
        ((halted, full),) = microseconds([net], select(batch, slice(0, size)), repeats=10)
        rows.append({"batch_size": size, "microseconds": halted, "full_microseconds": full})
    return rows
