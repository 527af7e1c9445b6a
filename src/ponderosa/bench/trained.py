"""`ponderosa bench run`: which share of the saving a trained run turns into time, at the depths that it chooses itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ponderosa.bench.baselines import full_depth, ideal
from ponderosa.bench.engine import alternate_for
from ponderosa.bench.timing import one_thread, percentile
from ponderosa.halting import PlannedDepth
from ponderosa.halting.base import Halting, Memory, Units, Verdict
from ponderosa.measure.cost import cost
from ponderosa.measure.environment import environment
from ponderosa.ponder import Ponder
from ponderosa.steps import TransformerStep
from ponderosa.training.experiment import load

BATCHES = (1, 8, 64, 512)
SECONDS = 4.0
"""For the turns of one row."""


def bench_run(folder: Path | str, *, size: int | None = None, seconds: float = SECONDS) -> dict[str, Any]:
    """Measure a run's steps on batches of test examples, as `bench engine` does: ours, the ideal and full depth take turns.

    One batch is as large as those that the task is evaluated in. The encoder and the head, which nothing can save, are left
    out. With `size`, transformer layers of that width take the steps that the run chose, and decide about them as it does
    (`Paced`): what the same decisions are worth in a larger network.
    """
    experiment = load(folder)
    net = experiment.net.eval()
    rows = []
    with one_thread(), torch.no_grad():
        for examples in sorted({*BATCHES, experiment.task.at_once}):
            batch = experiment.task.batch("test", 0, examples)
            depth = net(batch.x, mask=batch.mask, key=batch.key).steps
            x = batch.x if net.encoder is None else net.encoder(batch.x)
            head = net.head if net.halting.reads_output else None
            bare = Ponder(net.step, net.halting, head=head, max_steps=net.max_steps).eval()
            rows.append(_row(bare, x, depth, {"key": batch.key}, seconds))
            if size is not None and examples in BATCHES:
                rows.append(_row(*_wider(net, x, size), depth, {"depth": depth}, seconds))
    return {"benchmark": "run", "folder": str(folder), "environment": {**environment(), "threads": 1}, "rows": rows}


class Paced(PlannedDepth):
    """Halts as planned, but does another mechanism's work at every step: looking costs time, whatever it sees."""

    def __init__(self, other: Halting):
        super().__init__(unit=other.unit)
        if other.reads_output or any(True for _ in other.parameters()):
            raise ValueError(
                f"{type(other).__name__} decides by what it learned at its own width: leave --size out, or give a run of LAC"
            )
        self.other, self.on_host = other, other.on_host

    def begin(self, state: Tensor, units: Units) -> Memory:
        return {**super().begin(state, units), "other": self.other.begin(state, units)}

    def update(self, n: int | Tensor, state: Tensor, output: Tensor | None, memory: Memory) -> Verdict:
        _, _, seen = self.other.update(n, state, output, memory["other"])
        share, done, memory = super().update(n, state, output, memory)
        return share, done, {**memory, "other": seen}


def _wider(net: Ponder, x: Tensor, size: int) -> tuple[Ponder, Tensor]:
    """Layers of another width at the run's pace, and states for them."""
    layers = None if net.step.tied else net.step.max_steps
    step = TransformerStep(size, size // 64, layers=layers)
    return Ponder(step, Paced(net.halting), max_steps=net.max_steps).eval(), torch.randn(*x.shape[:2], size)


def _row(net: Ponder, x: Tensor, depth: Tensor, told: dict[str, Any], seconds: float) -> dict[str, Any]:
    runs = {
        "ours": torch.no_grad()(lambda: net(x, **told)), "ideal": torch.no_grad()(ideal(net, x, None, depth)),
        "full": torch.no_grad()(lambda: full_depth(net, x, None, depth)),
    }  # fmt: skip
    bound = cost(net, x, **told).bound
    ours, best, full = (percentile(turns) for turns in alternate_for(runs, seconds).values())
    return {
        "width": net.step.size, "batch": len(x), "mean_steps": round(float(depth.float().mean()), 2),
        "ms": round(1000 * ours, 3), "full_ms": round(1000 * full, 3), "speedup": round(full / ours, 3),
        "flop_bound": round(bound, 3), "ideal_bound": round(full / best, 3), "share": round(best / ours, 3),
    }  # fmt: skip
