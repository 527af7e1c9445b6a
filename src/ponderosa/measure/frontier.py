"""The frontier of a network: accuracy against what it costs, over all settings of its knob."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ponderosa.measure.batches import Data, read, right, select
from ponderosa.measure.cost import alternating, evaluating
from ponderosa.measure.frame import Frame
from ponderosa.measure.sweep import Score, Sweep, knob_of, network, sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = {
    "setting": "", "accuracy": "accuracy", "low": "at least", "high": "at most", "mean_steps": "mean steps",
    "operations": "operations", "saved": "saved", "microseconds": "us/example",
}  # fmt: skip
TIMED = 256
"""Examples in the batch that times are measured on."""


@dataclass(frozen=True)
class Frontier:
    """Accuracy, steps, operations and time at each setting of a knob, the deepest first."""

    name: str
    knob: str
    points: Frame
    """A row for each setting; `low` and `high` hold the accuracy in 95 of 100 resamplings of the examples and of the seeds."""
    own: dict[str, Any]
    """The same figures of the network as it is."""
    area: float
    """The mean, over all budgets from nothing to the operations of full depth, of the best accuracy within the budget."""
    full_operations: float
    """Per example, at full depth without halting."""
    examples: int
    seeds: int
    max_steps: int

    def plot(self) -> Figure:
        """Accuracy against mean steps."""
        from ponderosa.measure.plots import frontier

        return frontier([self.run()])

    def run(self) -> dict[str, Any]:
        """As a run of a report: what the network does as it is, and the frontier."""
        adaptive = len(self.points) > 1
        return {**self.own, "name": self.name, "adaptive": adaptive, "max_steps": self.max_steps, "frontier": self.record()}

    def record(self) -> dict[str, Any]:
        """Plain values, for a file or a report."""
        return {
            "name": self.name, "knob": self.knob, "points": list(self.points), "own": self.own, "area": self.area,
            "examples": self.examples, "seeds": self.seeds, "max_steps": self.max_steps,
        }  # fmt: skip

    @property
    def headline(self) -> str:
        seeds = f", {self.seeds} seeds" if self.seeds > 1 else ""
        area = f"; area under the frontier {self.area:.4f}" if len(self.points) > 1 else ""
        return f"{self.name}: {self.knob} on {self.examples:,} examples{seeds}{area}"

    def __repr__(self) -> str:
        return f"{self.headline}\n\n{self.points}"

    def _repr_html_(self) -> str:
        from ponderosa.measure.figure import svg

        return f"<p>{escape(self.headline)}</p>{svg(self.plot())}{self.points._repr_html_()}"


def frontier(
    model: Any, data: Data, *, name: str | None = None, settings: int | Sequence[float] = 20, knob: str | None = None,
    score: Score = right, time: bool = False, progress: bool = False,
) -> Frontier:  # fmt: skip
    """Sweep the knob of a trained network over the examples of a data loader.

    Args:
        model: a `Ponder`, or what `po.adapt` made; a list of them for the seeds of one network.
        data: a data loader (see `measure.batches.Data`).
        name: of the network, by default its mechanism's.
        settings: how many of them, or which ones.
        knob: "max_steps" for the limit on steps, if not the mechanism's own; a fixed depth has none, and is a point without.
        score: how good an answer is; by default 1 for the right class.
        time: whether to measure the time of each setting, too, on the first examples.
        progress: whether to show a progress bar.
    """
    models = model if isinstance(model, (list, tuple)) else [model]
    if knob is None and not network(models[0]).halting.adaptive:
        settings = 1
    if len(models) > 1:
        data = list(data)  # a loader that shuffles would give each its own order: what is compared is example by example
    sweeps = [sweep(one, data, settings=settings, knob=knob, score=score, progress=progress) for one in models]
    times = [measured(one, data, sweeps[0].values, knob) for one in models] if time else None
    return joined(sweeps, name or type(network(models[0]).halting).__name__, times)


def joined(sweeps: Sequence[Sweep], name: str, times: Sequence[Sequence[float]] | None = None) -> Frontier:
    """The frontier of one network trained with several seeds: sweeps of the same settings on the same examples.

    `times` are the microseconds of each network at each setting and, last, as it is.
    """
    first = sweeps[0]
    if any((s.knob, s.values, s.score.shape) != (first.knob, first.values, first.score.shape) for s in sweeps):
        raise ValueError("the sweeps differ in their knob, settings or examples: join those of one network's seeds only")
    score = torch.stack([torch.cat([s.score, s.own.score[None]]) for s in sweeps])
    steps = torch.stack([torch.cat([s.steps, s.own.steps[None]]) for s in sweeps])
    low, high = bands(score)
    full = sum(s.full_operations for s in sweeps) / len(sweeps)
    rows: list[dict[str, Any]] = []
    for i, value in enumerate([*first.values, None]):
        done = sum([*s.operations, s.own_operations][i] for s in sweeps) / len(sweeps)
        rows.append({
            "value": value, "setting": None if value is None else f"{value:.6g}", "accuracy": float(score[:, i].mean()),
            "low": float(low[i]), "high": float(high[i]), "mean_steps": float(steps[:, i].mean()),
            "operations": done, "saved": 1 - done / full,
            "microseconds": None if times is None else sum(t[i] for t in times) / len(times),
        })  # fmt: skip
    *points, own = rows
    return Frontier(
        name, first.knob, Frame(points, COLUMNS | {"setting": first.knob}), own,
        area([(1 - row["saved"], row["accuracy"]) for row in rows]), full, score.shape[-1], len(sweeps), first.own.max_steps,
    )  # fmt: skip


def bands(score: Tensor, resamplings: int = 200, level: float = 0.95) -> tuple[Tensor, Tensor]:
    """The range of the mean score `[settings]` of `[seeds, settings, examples]` in most resamplings: seeds are drawn again,
    and so are the examples."""
    seeds, _, examples = score.shape
    random = torch.Generator().manual_seed(0)
    drawn = torch.randint(examples, (resamplings, examples), generator=random)
    counts = torch.zeros(resamplings, examples).scatter_add_(1, drawn, torch.ones(resamplings, examples))
    means = score.float() @ counts.T / examples  # [seeds, settings, resamplings]
    chosen = torch.randint(seeds, (seeds, resamplings), generator=random)
    means = torch.stack([means[chosen[:, r], :, r].mean(0) for r in range(resamplings)])
    tail = (1 - level) / 2
    low, high = means.quantile(torch.tensor([tail, 1 - tail]), 0)
    return low, high


def area(points: Sequence[tuple[float, float]]) -> float:
    """The mean over all budgets, as shares of full depth from 0 to 1, of the best accuracy of the points (share, accuracy)
    within the budget; 0 where none is.

    >>> area([(0.5, 0.8), (1.0, 1.0)]), area([(0.25, 1.0), (1.0, 0.9)])
    (0.4, 0.75)
    """
    best, total = 0.0, 0.0
    ordered = sorted((min(share, 1.0), accuracy) for share, accuracy in points)
    for (share, accuracy), (following, _) in pairwise([*ordered, (1.0, 0.0)]):
        best = max(best, accuracy)
        total += best * (following - share)
    return total


def measured(model: Any, data: Data, values: Sequence[Any], knob: str | None = None, repeats: int = 10) -> list[float]:
    """Microseconds per example at each setting, and last of the network as it is, on the first examples of the data."""
    net, turns = network(model), knob_of(model, knob)
    batch = select(next(read(data, net)), slice(0, TIMED))

    def run() -> object:
        return net(batch.x, mask=batch.mask, key=batch.key)

    def turned(value: Any) -> object:
        with turns.turned(value):
            return run()

    runs: list[Callable[[], object]] = [*(partial(turned, value) for value in values), run]
    with evaluating(net):
        return [seconds / len(batch) * 1e6 for seconds in alternating(runs, repeats)]
