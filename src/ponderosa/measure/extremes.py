"""The examples with the fewest and with the most steps, as a page shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from ponderosa.halting.exits import log_probabilities
from ponderosa.measure.batches import select
from ponderosa.measure.sweep import Score
from ponderosa.ponder import Ponder
from ponderosa.tasks.base import Batch, Task, numbers
from ponderosa.tree import Tree, tree_map

EXAMPLES = 4
"""Shown with the fewest steps, and as many with the most."""


def extremes(net: Ponder, batch: Batch, steps: Tensor, score: Score, task: Task | None) -> dict[str, list[dict[str, Any]]]:
    """Examples of a batch, the first of whose steps `[examples]` are known, with the fewest steps and with the most."""
    order = steps[: len(batch)].argsort(stable=True).tolist()
    rows = {"fewest": order[:EXAMPLES], "most": order[::-1][:EXAMPLES]}
    return {name: [example(net, batch, row, score, task) for row in chosen] for name, chosen in rows.items()}


def example(net: Ponder, batch: Batch, row: int, score: Score, task: Task | None) -> dict[str, Any]:
    """One example: the input, the steps it took, the answer and the target."""
    one = select(batch, slice(row, row + 1))
    solution = net(one.x, mask=one.mask, key=one.key)
    x, steps = tree_map(lambda leaf: _real(leaf, one.mask), one.x), _real(solution.steps, one.mask)
    names = None if task is None else task.labels
    return {
        **_shown(x, task), "steps": steps.tolist(), "mean_steps": float(steps.float().mean()),
        "answer": _label(log_probabilities(solution.output).argmax(-1), names), "target": _label(one.y, names),
        "right": bool(score(solution.output, one.y).mean() > 0.5),
    }  # fmt: skip


def _real(leaf: Tensor, mask: Tensor | None) -> Tensor:
    """The one example of a tensor, without its padding."""
    return leaf[0] if mask is None or leaf.shape[:2] != mask.shape else leaf[0][mask[0]]


def _shown(x: Tree, task: Task | None) -> dict[str, Any]:
    return {"words": numbers(x)} if task is None else {"words": task.words(x), "picture": task.picture(x)}


def _label(values: Tensor, names: Sequence[str] | None) -> str:
    return " ".join(f"{n:g}" if names is None else str(names[int(n)]) for n in values.flatten()[:8].tolist())
