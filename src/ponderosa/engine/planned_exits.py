"""Tokens whose depths are known in advance, in examples that may leave sooner: they stay packed from step to step, and are
gathered only where examples leave."""

from __future__ import annotations

import numpy as np
from torch import Tensor, nn

from ponderosa.engine.head import answer
from ponderosa.engine.planned_tokens import Packed, in_order, stages
from ponderosa.engine.rows import Parts, check_rows, in_a_row, select
from ponderosa.halting.base import Halting, Memory, Units
from ponderosa.host import Array, host, tensor
from ponderosa.steps.transformer import TokenStep
from ponderosa.tree import Tree


def advance_until(
    step: TokenStep, halting: Halting, head: nn.Module | None, context: Tree, state: Tensor, units: Units, memory: Memory,
    latest: Array, numbers: Array,
) -> Parts:  # fmt: skip
    """What examples leave with when the halting says so; `latest` `[batch, token]` has the most steps that each token takes,
    0 for padding."""
    leaving = Leaving(step, halting, context, state, units, memory, latest, numbers)
    judged_is_final = _never_sees_padding(head, units.mask)
    parts: list[Parts] = []
    n = 0
    while len(leaving) or not parts:  # of an empty batch, too: its answer is then of the right kind
        n += 1
        read = step.read(leaving.take_step(n))
        output = answer(head, read, n, leaving.mask)
        ended = leaving.decide(n, read, output)
        if ended.any() or not len(ended):
            parts.append(leaving.part(ended, n, output if judged_is_final else None))
            leaving.drop(ended, n)
    whole = in_a_row(parts)
    return whole if (np.diff(whole.rows) > 0).all() else whole.part(whole.rows.argsort())


def _never_sees_padding(head: nn.Module | None, mask: Tensor | None) -> bool:
    """Whether the answer that an exit judges is the one that is given: there padding is zero."""
    heads = head if isinstance(head, nn.ModuleList) else [head]
    return mask is None or (all(getattr(each, "reads_mask", False) for each in heads) and bool(mask.any(1).all()))


class Leaving:
    """The examples under way, deepest first. Their tokens are packed; the head is shown them as they stood."""

    def __init__(
        self, step: TokenStep, halting: Halting, context: Tree, state: Tensor, units: Units, memory: Memory, latest: Array,
        numbers: Array,
    ):  # fmt: skip
        deepest = latest.max(1, initial=0)
        order = slice(None) if (deepest[1:] <= deepest[:-1]).all() else np.argsort(-deepest, kind="stable")
        whole = {"numbers": numbers, "latest": latest, "memory": memory, "mask": units.mask, "state": state}
        check_rows((context, whole), len(numbers))
        self.halting, self.width, self.carried = halting, latest.shape[1], select(whole, order)
        latest = self.carried["latest"]
        places = in_order(None, latest, None if units.mask is None else latest > 0)
        self.index, flat = tensor(places, state), self.carried["state"].flatten(0, 1)
        """Where the packed tokens stand in the padded batch."""
        inputs = context.get("input")
        if inputs is not None:
            inputs = select(inputs.expand_as(state), order).flatten(0, 1).index_select(0, self.index)
        self.packed = Packed(step, flat.index_select(0, self.index), inputs)
        self.stages = stages(latest.ravel()[places], (latest > 0).sum(1), state)

    def __len__(self) -> int:
        return len(self.carried["numbers"])

    @property
    def mask(self) -> Tensor | None:
        return self.carried["mask"]

    def take_step(self, n: int) -> Tensor:
        """The state `[batch, token, size]` after step `n`: a new one, since a head or a halting may have kept the last."""
        state = self.carried["state"]
        if n <= len(self.stages):  # else there is no token
            stage = self.stages[n - 1]
            rows = self.packed.take_step(n, stage)
            flat = state.flatten(0, 1).to(rows.dtype).index_copy(0, self.index[stage.places], rows)
            self.carried["state"] = state = flat.view_as(state)
        return state

    def decide(self, n: int, read: Tensor, output: Tensor) -> Array:
        """Whether each example ends: all its tokens are done, as the halting says or because they were to take no more."""
        _, done, self.carried["memory"] = self.halting.update(n, read, output, self.carried["memory"])
        latest = self.carried["latest"]
        if done.shape != latest.shape:
            raise ValueError(f"the halting spoke for units {list(done.shape)}, but there are tokens {list(latest.shape)}")
        return (host(done) | (latest <= n)).all(1)

    def part(self, ended: Array, n: int, output: Tensor | None) -> Parts:
        """What those that end with step `n` leave with."""
        found = self.carried["numbers"], self.carried["state"], output, self.carried["latest"]
        numbers, state, output, latest = found if ended.all() else select(found, np.flatnonzero(ended))
        return Parts(numbers, state, output, np.minimum(latest, n), None)

    def drop(self, ended: Array, n: int) -> None:
        """Go on with the others after step `n`."""
        stay, places = np.flatnonzero(~ended), host(self.index)
        self.carried = select(self.carried, stay)
        if not len(stay):
            return
        latest, state = self.carried["latest"], self.carried["state"]
        kept = np.flatnonzero(~ended[places // self.width])
        moved = np.searchsorted(stay, places[kept] // self.width) * self.width + places[kept] % self.width
        if len(stay) == 1:  # of a single one the deepest tokens come first
            order = np.argsort(-latest[0, moved], kind="stable")
            kept, moved = kept[order], moved[order]
        self.stages = stages(latest.ravel()[moved], (latest > 0).sum(1), state)
        if self.stages:  # else no token is left
            self.packed = self.packed.part(tensor(kept, state), self.stages[n - 1].places)
        self.index = tensor(moved, state)
