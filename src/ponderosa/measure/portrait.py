"""All that a report shows of a trained network, as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from ponderosa.halting.exits import log_probabilities
from ponderosa.measure.allocation import Allocation, allocation
from ponderosa.measure.batches import batches, first_parameter, select, to_like
from ponderosa.measure.cost import evaluating, microseconds
from ponderosa.measure.frontier import frontier
from ponderosa.ponder import Ponder
from ponderosa.tasks.base import Batch, Task
from ponderosa.tree import tree_map

BATCH_SIZES = (1, 4, 16, 64, 256)
EXAMPLES = 4
"""Shown with the fewest steps, and as many with the most."""


def portrait(
    nets: Sequence[Ponder], task: Task, name: str, *, examples: int = 10_000, settings: int = 20, progress: bool = False
) -> dict[str, Any]:
    """The figures of a network, trained with one seed or several, on the test set."""
    net = nets[0]
    data = list(batches(task, "test", examples, task.at_once))
    count = settings if net.halting.adaptive else 1  # a fixed depth has no choice to make
    front = frontier(list(nets), data, name=name, settings=count, score=task.score, time=True, progress=progress)
    spent = allocation(net, data, score=task.score, progress=progress)
    sizes = by_batch_size(net, data[0])
    own = front.own
    return {
        **spent.seen.summary(), "name": name, "accuracy": own["accuracy"], "mean_steps": own["mean_steps"],
        "operations": own["operations"], "full_operations": front.full_operations,
        "microseconds": own["microseconds"], "full_microseconds": sizes[-1]["full_microseconds"], "knob": front.knob,
        "seeds": len(nets), "parameters": sum(p.numel() for p in net.parameters()), "frontier": front.record(),
        "allocation": recorded(spent, task), "by_batch_size": sizes, "extremes": extremes(net, task, data[0], spent),
    }  # fmt: skip


def recorded(spent: Allocation, task: Task) -> dict[str, Any]:
    """An allocation as plain values."""
    return spent.summary() | {"by_class": list(spent.by_class(task.labels)), "by_depth": list(spent.by_depth())}


def by_batch_size(net: Ponder, batch: Batch) -> list[dict[str, Any]]:
    """Microseconds per example as the network halts and at full depth, in batches of several sizes."""
    rows = []
    for size in sorted({min(size, len(batch)) for size in BATCH_SIZES}):
        ((halted, full),) = microseconds([net], select(batch, slice(0, size)), repeats=10)
        rows.append({"batch_size": size, "microseconds": halted, "full_microseconds": full})
    return rows


def extremes(net: Ponder, task: Task, batch: Batch, spent: Allocation) -> dict[str, list[dict[str, Any]]]:
    """The examples of a batch with the fewest steps, and those with the most."""
    order = spent.seen.steps[: len(batch)].argsort(stable=True).tolist()
    rows = {"fewest": order[:EXAMPLES], "most": order[::-1][:EXAMPLES]}
    return {name: [example(net, task, batch, row) for row in chosen] for name, chosen in rows.items()}


def example(net: Ponder, task: Task, batch: Batch, row: int) -> dict[str, Any]:
    """One example as a page shows it: the input, the steps it took, the answer and the target."""
    one = to_like(select(batch, slice(row, row + 1)), first_parameter(net))
    with evaluating(net):
        solution = net(one.x, mask=one.mask, key=one.key)
    x = tree_map(lambda leaf: leaf[0] if one.mask is None or leaf.shape[:2] != one.mask.shape else leaf[0][one.mask[0]], one.x)
    steps = solution.steps[0] if one.mask is None or solution.steps.ndim < 2 else solution.steps[0][one.mask[0]]
    return {
        "words": task.words(x), "picture": task.picture(x), "steps": steps.tolist(), "mean_steps": float(steps.float().mean()),
        "answer": _label(log_probabilities(solution.output).argmax(-1), task.labels), "target": _label(one.y, task.labels),
        "right": bool(task.score(solution.output, one.y).mean() > 0.5),
    }  # fmt: skip


def _label(values: Tensor, names: Sequence[str] | None) -> str:
    numbers = values.flatten().tolist()
    return " ".join(f"{n:g}" if names is None else str(names[int(n)]) for n in numbers[:8])
