"""Planned depth: the number of steps of each unit is known before the first one."""

from collections.abc import Callable

import torch
from torch import Tensor

from ponderosa.halting.base import Halting, Memory, Unit, Units, Verdict, check_choice
from ponderosa.halting.knob import Knob
from ponderosa.halting.losses import Criterion, answer_loss
from ponderosa.solution import Solution
from ponderosa.tree import Tree


class PlannedDepth(Halting):
    """Each unit takes as many steps as planned for it, 1 at least.

    The plan is a number for all, or a function from the input to a depth per unit (`[batch]`, or
    `[batch, token]`); depths given with the call, `net(x, depth=...)`, come first. A depth estimator
    (`po.MutualInformation`) is a plan for tokens; where examples halt, an example goes as deep as its deepest token.
    `shift` is added to every depth.

    >>> import ponderosa as po
    >>> net = po.Ponder(po.GRUStep(4, 8), po.PlannedDepth(), max_steps=5)
    >>> net(torch.ones(3, 4), depth=torch.tensor([1, 4, 9])).steps
    tensor([1, 4, 5])
    """

    hard = True
    on_host = True

    def __init__(self, plan: int | Callable[[Tree], Tensor] | None = None, *, unit: Unit | None = None, shift: int = 0):
        super().__init__()
        chosen: Unit = getattr(plan, "unit", "example") if unit is None else unit
        if isinstance(plan, int) and plan < 1:
            raise ValueError(f"plan={plan}: a unit takes at least one step")
        check_choice("unit", chosen, "batch", "example", "token")
        self.plan, self.unit, self.shift = plan, chosen, shift

    def begin(self, state: Tensor, units: Units) -> Memory:
        depth = units.depth
        if depth is None:
            if self.plan is None:
                raise ValueError(
                    "no depth is planned: call net(x, depth=...), ask a stream po.Request(x, depth=...), or give "
                    "PlannedDepth a plan"
                )
            depth = self.plan(units.inputs) if callable(self.plan) else torch.full(units.shape, self.plan)
            if self.unit == "example" and getattr(self.plan, "unit", None) == "token":
                depth = (depth if units.mask is None else depth * units.mask.to(depth.device)).amax(1)
        if depth.shape != units.shape:
            raise ValueError(f"the depths are {list(depth.shape)}, but the units ({self.unit}s) are {list(units.shape)}")
        if depth.is_floating_point():
            raise TypeError(f"the depths are {depth.dtype}: a number of steps is a whole number (round it first)")
        if self.unit == "batch" and depth.unique().numel() > 1:
            raise ValueError(
                f'unit="batch", but depths from {depth.min()} to {depth.max()}: a batch has one depth; use "example"'
            )
        return {"depth": depth.to(state.device) + self.shift}

    def depths(self, memory: Memory) -> Tensor:
        return memory["depth"]

    def update(self, n: int | Tensor, state: Tensor, output: Tensor | None, memory: Memory) -> Verdict:
        done = memory["depth"] <= n
        return None, done, memory

    def knob(self, limit: int) -> Knob:
        return Knob(self, "shift", limit - 1, 1 - limit)

    def loss(self, solution: Solution, target: Tensor, criterion: Criterion) -> Tensor:
        return answer_loss(solution, target, criterion)
