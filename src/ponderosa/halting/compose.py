"""Composition: halt when any of several says so, and bounds on the number of steps."""

from collections.abc import Sequence
from functools import reduce
from typing import cast

import torch
from torch import Tensor, nn

from ponderosa.halting.base import Halting, Memory, Units, Verdict
from ponderosa.halting.knob import Knob
from ponderosa.halting.losses import Criterion
from ponderosa.solution import Solution


class AnyOf(Halting):
    """Halts a unit when any of several mechanisms does.

    The first says how steps are weighed and trained; the others can only stop a unit. All must share its unit.

    >>> import ponderosa as po
    >>> po.AnyOf([po.LAC(), po.PlannedDepth(4)]).unit
    'example'
    """

    def __init__(self, haltings: list[Halting]):
        super().__init__()
        if not haltings:
            raise ValueError("AnyOf needs at least one mechanism")
        units = {h.unit for h in haltings}
        if len(units) > 1:
            raise ValueError(f"the mechanisms halt {sorted(units)}: they must all halt the same unit")
        if any(h.term_names for h in haltings[1:]):
            names = [type(h).__name__ for h in haltings]
            raise ValueError(f"AnyOf({names}): only the first is trained, so one that learns when to halt must come first")
        self.haltings = nn.ModuleList(haltings)
        self.unit = haltings[0].unit
        self.reads_output = any(h.reads_output for h in haltings)
        self.trains_every_step = haltings[0].trains_every_step
        self.adaptive = any(h.adaptive for h in haltings)
        self.term_names = haltings[0].term_names

    @property
    def parts(self) -> Sequence[Halting]:
        """The mechanisms: a `ModuleList` knows only that they are modules."""
        return cast(Sequence[Halting], self.haltings)

    @property
    def hard(self) -> bool:
        return self.parts[0].hard

    def build(self, size: int | None) -> None:
        for halting in self.parts:
            halting.build(size)

    def begin(self, state: Tensor, units: Units) -> Memory:
        return {str(i): h.begin(state, units) for i, h in enumerate(self.parts)}

    def depths(self, memory: Memory) -> Tensor | None:
        each = [h.depths(memory[str(i)]) for i, h in enumerate(self.parts)]
        known = [depths for depths in each if depths is not None]
        return reduce(torch.minimum, known) if len(known) == len(each) else None

    def update(self, n: int | Tensor, state: Tensor, output: Tensor | None, memory: Memory) -> Verdict:
        results = [h.update(n, state, output, memory[str(i)]) for i, h in enumerate(self.parts)]
        done = reduce(torch.logical_or, [d for _, d, _ in results])
        return results[0][0], done, {str(i): m for i, (_, _, m) in enumerate(results)}

    def knob(self, limit: int) -> Knob | None:
        return self.parts[0].knob(limit)

    def loss(self, solution: Solution, target: Tensor, criterion: Criterion) -> Tensor:
        return self.parts[0].loss(solution, target, criterion)

    def terms(self, solution: Solution) -> dict[str, Tensor]:
        return self.parts[0].terms(solution)


class Bounded(Halting):
    """A mechanism held between a minimum and a maximum number of steps.

    >>> import ponderosa as po
    >>> net = po.Ponder(po.GRUStep(4, 8), po.Bounded(po.LAC(), min_steps=3, max_steps=3), max_steps=9)
    >>> net(torch.ones(2, 4)).steps
    tensor([3, 3])
    """

    def __init__(self, halting: Halting, *, min_steps: int = 1, max_steps: int | None = None):
        super().__init__()
        if min_steps < 1 or (max_steps is not None and max_steps < min_steps):
            raise ValueError(f"min_steps={min_steps}, max_steps={max_steps}: 1 <= min_steps <= max_steps is needed")
        self.halting, self.min_steps, self.max_steps = halting, min_steps, max_steps
        self.unit, self.reads_output = halting.unit, halting.reads_output
        self.trains_every_step, self.adaptive = halting.trains_every_step, halting.adaptive or max_steps is not None
        self.term_names = halting.term_names

    @property
    def hard(self) -> bool:
        return self.halting.hard

    def build(self, size: int | None) -> None:
        self.halting.build(size)

    def begin(self, state: Tensor, units: Units) -> Memory:
        memory = {"inner": self.halting.begin(state, units)}
        zero = state.new_zeros(units.shape)
        return memory if self.hard else memory | {"spent": zero, "owed": zero}

    def depths(self, memory: Memory) -> Tensor | None:
        depths = self.halting.depths(memory["inner"])
        return None if depths is None else depths.long().clamp(self.min_steps, self.max_steps)

    def update(self, n: int | Tensor, state: Tensor, output: Tensor | None, memory: Memory) -> Verdict:
        share, done, inner = self.halting.update(n, state, output, memory["inner"])
        free = torch.as_tensor(n >= self.min_steps, device=done.device)
        done = done & free
        if self.max_steps is not None:
            done = done | torch.as_tensor(n >= self.max_steps, device=done.device)
        if share is None:
            return None, done, {"inner": inner}
        # steps before the first at which a unit may end weigh nothing: that one gets their shares, but never more than all
        owed = memory["owed"] + share
        share = torch.where(free, torch.minimum(owed, (1 - memory["spent"]).clamp_min(0)), 0.0)
        return share, done, {"inner": inner, "spent": memory["spent"] + share, "owed": torch.where(free, 0.0, owed)}

    def knob(self, limit: int) -> Knob | None:
        return self.halting.knob(limit)

    def loss(self, solution: Solution, target: Tensor, criterion: Criterion) -> Tensor:
        return self.halting.loss(solution, target, criterion)

    def terms(self, solution: Solution) -> dict[str, Tensor]:
        return self.halting.terms(solution)
