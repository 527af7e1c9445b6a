"""What an adaptive encoder saved on a stream of batches, and where: operations, time, and the tokens at each layer."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ponderosa.halting.fixed import Fixed
from ponderosa.halting.planned import PlannedDepth
from ponderosa.measure.cost import cost
from ponderosa.ponder import Ponder
from ponderosa.solution import Solution


@dataclass
class Saving:
    """Sums over all batches so far."""

    net: Ponder
    examples: int = 0
    tokens: int = 0
    active: Tensor = field(default_factory=lambda: torch.zeros(0))
    """Tokens that each layer computed `[layers]`."""
    done: float = 0.0
    full: float = 0.0
    seconds: float = 0.0
    full_seconds: float = 0.0
    estimation_seconds: float = 0.0

    def __post_init__(self) -> None:
        self.active = torch.zeros(self.net.full_depth)
        self.whole = Ponder(self.net.step, Fixed(), head=self.net.head, encoder=self.net.encoder, check_finite=False)

    @torch.no_grad()
    def answer(self, x: Tensor, mask: Tensor | None) -> Solution:
        """Answer a batch, and the same at full depth: the first call of each is not timed twice, they take turns."""
        self.net.eval(), self.whole.eval()
        self.full_seconds += _timed(self.whole, x, mask)[1]
        solution, seconds = _timed(self.net, x, mask)
        self.seconds += seconds
        for plan in [part.plan for part in self.net.halting.modules() if isinstance(part, PlannedDepth)]:
            started = time.perf_counter()
            if callable(plan):
                plan(x)
            self.estimation_seconds += time.perf_counter() - started
        real = torch.ones(x.shape[:2], dtype=torch.bool) if mask is None else mask
        steps = (solution.steps if solution.steps.ndim > 1 else solution.steps[:, None].expand_as(real)) * real
        self.examples += len(x)
        self.tokens += int(real.sum())
        layers = torch.arange(1, self.net.full_depth + 1).view(-1, 1, 1)
        self.active += (steps >= layers).sum((1, 2))
        spent = cost(self.net, x, solution, mask=mask)
        self.done += spent.done * len(x)
        self.full += spent.full * len(x)
        return solution

    def summary(self) -> dict[str, Any]:
        """The figures that a table shows; the speed-up stands beside what the operations allow at most."""
        each = max(self.examples, 1)
        return {
            "examples": self.examples, "tokens": self.tokens, "layers": self.net.full_depth,
            "mean_depth": float(self.active.sum()) / max(self.tokens, 1),
            "by_layer": (self.active / max(self.tokens, 1)).tolist(),
            "operations": self.done / each, "full_operations": self.full / each, "bound": self.full / max(self.done, 1.0),
            "microseconds": self.seconds / each * 1e6, "full_microseconds": self.full_seconds / each * 1e6,
            "estimation_microseconds": self.estimation_seconds / each * 1e6,
            "speedup": self.full_seconds / max(self.seconds, 1e-12),
        }  # fmt: skip


def _timed(net: Ponder, x: Tensor, mask: Tensor | None) -> tuple[Solution, float]:
    started = time.perf_counter()
    solution = net(x, mask=mask)
    return solution, time.perf_counter() - started
