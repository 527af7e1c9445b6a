"""Tokens whose depths are known in advance, in examples that may leave sooner: they stay packed from step to step, and are
gathered only where examples leave."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ponderosa.engine.head import answer, pools
from ponderosa.engine.planned_tokens import Packed, in_order, stages
from ponderosa.engine.rows import Parts, check_rows, select
from ponderosa.halting.base import Halting, Memory, Units
from ponderosa.host import Array, host, tensor
from ponderosa.steps.base import Step
from ponderosa.steps.transformer import TokenStep
from ponderosa.tree import Tree


def advance_until(
    step: TokenStep, halting: Halting, head: nn.Module | None, context: Tree, state: Tensor, units: Units, memory: Memory,
    latest: Array, numbers: Array,
) -> Parts:  # fmt: skip
    """What examples leave with when the halting says so; `latest` `[batch, token]` has the most steps that each token takes,
    0 for padding."""
    leaving = Leaving(step, halting, head, context, state, units, memory, latest)
    n = 0
    while len(leaving) or not n:  # of an empty batch, too: its answer is then of the right kind
        n += 1
        output = leaving.take_step(n)
        ended = leaving.decide(n, output)
        if ended.any() or not len(ended):
            leaving.leave(ended, n, output)
    return leaving.parts(numbers)


def _never_sees_padding(head: nn.Module | None, mask: Tensor | None) -> bool:
    """Whether the answer that an exit judges is the one that is given: there padding is zero."""
    heads = head if isinstance(head, nn.ModuleList) else [head]
    return mask is None or (all(getattr(each, "reads_mask", False) for each in heads) and bool(mask.any(1).all()))


class Leaving:
    """The examples under way, deepest first. Their tokens are packed; a head that cannot pool them so is shown them as they
    stood. Each token's state is written down once, when its example leaves."""

    def __init__(
        self, step: TokenStep, halting: Halting, head: nn.Module | None, context: Tree, state: Tensor, units: Units,
        memory: Memory, latest: Array,
    ):  # fmt: skip
        deepest, batch = latest.max(1, initial=0), len(latest)
        order = None if (deepest[1:] <= deepest[:-1]).all() else np.argsort(-deepest, kind="stable")
        whole: dict[str, Any] = {"rows": np.arange(batch), "latest": latest, "memory": memory, "mask": units.mask}
        check_rows((context, state, whole), batch)
        self.step, self.halting, self.head, self.width = step, halting, head, latest.shape[1]
        self.judged_is_final = _never_sees_padding(head, units.mask)
        self.final, self.steps = state.flatten(0, 1), latest.copy()
        """What examples leave with: their states, as they stood, and the steps that they took."""
        self.left: list[tuple[Array, Tensor]] = []
        """Who left with which answers."""
        self.packs_head = type(step).read is Step.read and bool((latest > 0).any(1).all()) and pools(head)
        self.carried: dict[str, Any] = whole if order is None else select(whole, order)
        places = in_order(order, latest, None if units.mask is None else latest > 0)
        self.places = places
        """Where the packed tokens stand in the padded batch."""
        index, inputs = tensor(places, state), context.get("input")
        if inputs is not None:
            inputs = inputs.expand_as(state).flatten(0, 1).index_select(0, index)
        self.packed = Packed(step, self.final.index_select(0, index), inputs)
        self._plan(latest.ravel()[places], state)

    def _plan(self, steps: Array, like: Tensor) -> None:
        self.counts = (self.carried["latest"] > 0).sum(1)
        self.stages = stages(steps, self.counts, like)

    def __len__(self) -> int:
        return len(self.carried["rows"])

    def take_step(self, n: int) -> Tensor:
        """The answers after step `n`."""
        if n <= len(self.stages):  # else there is no token
            self.packed.take_step(n, self.stages[n - 1])
        if self.packs_head:
            chosen: Any = self.head[n - 1] if isinstance(self.head, nn.ModuleList) else self.head
            return chosen.packed(self.packed.settled(), self.counts)
        return answer(self.head, self.step.read(self.padded()), n, self.carried["mask"])

    def padded(self) -> Tensor:
        """The states of the examples under way `[batch, token, size]`: new ones, since a head may have kept the last."""
        rows, under_way = self.packed.settled(), self.carried["rows"]
        state = (
            self.final.view(len(self.steps), self.width, rows.shape[-1]).to(rows.dtype).index_select(0, tensor(under_way, rows))
        )
        places = np.repeat(np.arange(len(self)) * self.width, self.counts) + self.places % self.width
        return state.flatten(0, 1).index_copy(0, tensor(places, rows), rows).view_as(state)

    def decide(self, n: int, output: Tensor) -> Array:
        """Whether each example ends: all its tokens are done, as the halting says or because they were to take no more."""
        _, done, self.carried["memory"] = self.halting.update(n, self.packed.rows, output, self.carried["memory"])
        latest = self.carried["latest"]
        if done.shape != latest.shape:
            raise ValueError(f"the halting spoke for units {list(done.shape)}, but there are tokens {list(latest.shape)}")
        return (host(done) | (latest <= n)).all(1)

    def leave(self, ended: Array, n: int, output: Tensor) -> None:
        """Those that end with step `n` leave, the others go on."""
        rows, states, places = self.carried["rows"], self.packed.settled(), self.places
        leaves, stay = np.repeat(ended, self.counts), np.flatnonzero(~ended)
        if len(stay):
            gone, chosen = np.flatnonzero(ended), np.flatnonzero(leaves)
            rows, places, states = rows[gone], places[chosen], states.index_select(0, tensor(chosen, states))
            output = output.index_select(0, tensor(gone, output))
        # written into what is our own, where no gradient is needed
        write = Tensor.index_copy_ if self.left and not torch.is_grad_enabled() else Tensor.index_copy
        self.final = write(self.final.to(states.dtype), 0, tensor(places, states), states)
        self.left.append((rows, output))
        self.steps[rows] = np.minimum(self.steps[rows], n)
        self.carried = select(self.carried, stay)
        if len(stay):
            self._drop(np.flatnonzero(~leaves), n)

    def _drop(self, kept: Array, n: int) -> None:
        """Go on with some of the tokens after step `n`."""
        steps = self.steps.ravel()[self.places[kept]]
        if len(self) == 1:  # of a single one the deepest tokens come first
            order = np.argsort(-steps, kind="stable")
            kept, steps = kept[order], steps[order]
        self.places = self.places[kept]
        self._plan(steps, self.final)
        self.packed = self.packed.part(tensor(kept, self.final), self.stages[n - 1].places)

    def parts(self, numbers: Array) -> Parts:
        """What all left with, in their order."""
        state = self.final.view(len(numbers), self.width, self.final.shape[-1])
        if not self.judged_is_final:
            return Parts(numbers, state, None, self.steps, None)
        rows, outputs = zip(*self.left, strict=True)
        places = np.concatenate(rows).argsort()
        output = outputs[0] if len(outputs) == 1 and (np.diff(rows[0]) > 0).all() else torch.cat(outputs)[tensor(places, state)]
        return Parts(numbers, state, output, self.steps, None)
