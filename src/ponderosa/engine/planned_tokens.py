"""Tokens whose depths are known in advance: packed once, they stay so from the first step to the last.

The examples stand in the order of their depths, deepest first. So what the tokens of a step attend to is always the beginning
of the batch, and each step takes its rows from those that the step before has just made.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor

from ponderosa.engine.rows import going
from ponderosa.host import Array, tensor
from ponderosa.steps.attention import attend_packed
from ponderosa.steps.base import Step
from ponderosa.steps.transformer import TokenStep
from ponderosa.tree import Tree


def stays_packed(step: Step) -> TypeGuard[TokenStep]:
    """Whether a step is made of plain layers: those whose attention or weights depend on whole examples run step by step."""
    if not isinstance(step, TokenStep) or step.hyper is not None:
        return False
    return all(getattr(type(step), own) is getattr(TokenStep, own) for own in ("prepare", "advance", "advance_packed"))


Places = Tensor | slice


@dataclass(frozen=True)
class Stage:
    """What one step computes."""

    places: Places
    """Of its tokens in the packed batch."""
    kept: Places | None
    """Of its tokens among those of the step before; None if they are the same."""
    changed: int
    """How many tokens of the step before are in examples that go on."""
    counts: list[int]
    """How many each example has that goes on."""
    shown: list[int]
    """How many tokens these examples have: they are attended to."""


def stages(steps: Array, lengths: Array, like: Tensor) -> list[Stage]:
    """A stage for each step, from the steps of the packed tokens `[rows]` and the tokens of each example, deepest first."""
    if len(lengths) == 1:
        counts, shown = going(steps), lengths.tolist()
        changes = pairwise([len(steps), *counts])
        return [Stage(slice(k), None if k == before else slice(k), before, [k], shown) for before, k in changes]
    of_example = np.repeat(np.arange(len(lengths)), lengths)
    before, found, all_lengths = np.arange(len(steps)), [], lengths.tolist()
    for n in range(1, int(steps.max(initial=0)) + 1):
        still = np.flatnonzero(steps[before] >= n)
        places, kept = before[still], None if len(still) == len(before) else tensor(still, like)
        counts = np.bincount(of_example[places]).tolist()
        changed = int(np.searchsorted(of_example[before], len(counts)))
        found.append(Stage(tensor(places, like), kept, changed, counts, all_lengths[: len(counts)]))
        before = places
    return found


class Buffer:
    """Rows that are replaced: in place, if so said, where they are our own and no gradient is needed."""

    def __init__(self, rows: Tensor, in_place: bool = True):
        self.rows, self.in_place, self.own = rows, in_place, False

    def put(self, places: Places | None, rows: Tensor) -> None:
        """Rows for these places; None for all."""
        in_place = self.in_place and self.own and not torch.is_grad_enabled()
        if places is None:
            self.rows, self.own = rows, False
            return
        if isinstance(places, Tensor):
            write = torch.Tensor.index_copy_ if in_place else torch.Tensor.index_copy
            self.rows = write(self.rows, 0, places, rows)
        elif in_place:
            self.rows[places] = rows
        else:
            self.rows = torch.cat([rows, self.rows[len(rows) :]])
        self.own = True


class Shown:
    """The keys and values of all tokens, as far as they are known."""

    def __init__(self) -> None:
        self.buffer: Buffer | None = None

    def note(self, places: Places | None, keys_values: Tensor, count: int) -> Tensor:
        """Those of the first `count` tokens, now that those at some places are new."""
        if self.buffer is None:
            self.buffer = Buffer(keys_values)
        else:
            self.buffer.put(places, keys_values)
        return _first(self.buffer.rows, count)


def advance_tokens(
    step: TokenStep, context: Tree, state: Tensor, order: Array | None, steps: Array, real: Array | None
) -> Tensor:
    """The state after all steps, those of each token `[batch, token]`; `order` has the deepest examples first, if they do not
    stand so already; True in `real` for what is not padding, which stays as it is."""
    together = 0 if real is not None or step.frozen_kv else int(steps.min(initial=steps.max(initial=0)))
    state = step.advance_by(context, state, 1, together)  # all tokens of all examples, as they stand
    if together == steps.max(initial=0):
        return state
    lengths = np.full(len(steps), steps.shape[1]) if real is None else real.sum(1)
    places, lengths = in_order(order, steps, real), lengths if order is None else lengths[order]
    index, flat = tensor(places, state), state.flatten(0, 1)
    inputs = context.get("input")
    inputs = None if inputs is None else inputs.expand_as(state).flatten(0, 1).index_select(0, index)
    packed = Packed(step, flat.index_select(0, index), inputs)
    for n, stage in enumerate(stages(steps.ravel()[places], lengths, state)[together:], together + 1):
        packed.take_step(n, stage)
    after = packed.settled()
    return flat.to(after.dtype).index_copy(0, index, after).view_as(state)


def in_order(order: Array | None, steps: Array, real: Array | None) -> Array:
    """Where the tokens of a packed batch stand in the padded one: example by example, and of a single one the deepest first,
    so that its tokens, too, leave at the end."""
    if len(steps) == 1:
        return np.argsort(-steps[0], kind="stable")[: None if real is None else int(real.sum())]
    places = np.arange(steps.size).reshape(steps.shape)
    places = places if order is None else places[order]
    if real is None:
        return places.ravel()
    return places[real if order is None else real[order]]


class Packed:
    """Packed tokens `h` `[rows, size]` on their way from step to step, with the inputs that every step sees again, if any."""

    def __init__(self, step: TokenStep, h: Tensor, inputs: Tensor | None):
        self.step, self.inputs = step, inputs
        self.renewed = not (step.frozen_kv or step.repeats_exactly)  # whether every step shows something else of every token
        # what a layer was given is not written to: somebody may have kept it
        self.states, self.shown = Buffer(h, in_place=not self.renewed), Shown()
        self.rows: Tensor = h
        """The tokens of the step before."""
        self.places: Places | None = None
        """Where they stand; None for all."""
        self.new = False
        """Whether they are not among the states yet."""

    def take_step(self, n: int, stage: Stage) -> Tensor:
        """The states of the tokens that take step `n`."""
        step, layer, count, changed = self.step, self.step.layer(n), sum(stage.shown), stage.changed
        if self.renewed or stage.kept is not None:
            self.settled()
        if self.renewed:
            shown = step.seen(_first(self.states.rows, count), n, _at(self.inputs, slice(count)))
            keys_values = layer.keys_values(shown)
        elif not step.frozen_kv:  # a repeated layer shows the same of a token until its state changes
            where = self.places[:changed] if isinstance(self.places, Tensor) else slice(changed)
            new = layer.keys_values(step.seen(_first(self.rows, changed), n, _at(self.inputs, where)))
            keys_values = self.shown.note(where, new, count)
        rows, self.places = _at(self.rows, stage.kept), stage.places
        seen = step.seen(rows, n, _at(self.inputs, self.places))
        if step.frozen_kv:  # and a frozen one for ever what it showed last
            keys_values = self.shown.note(self.places, layer.keys_values(seen), count)
        attended = attend_packed(layer.queries(seen), keys_values, layer.heads, stage.counts, stage.shown)
        self.rows, self.new = layer.finish(seen, attended), True
        return self.rows

    def settled(self) -> Tensor:
        """The states of all tokens, those of the last step among them."""
        if self.new:
            self.states.put(self.places, self.rows)
            self.new = False
        return self.states.rows

    def part(self, kept: Tensor, places: Places) -> Packed:
        """Some of the tokens on their own; `places`, among these, are those that took the last step."""
        other = Packed(self.step, self.settled().index_select(0, kept), _at(self.inputs, kept))
        other.rows, other.places = _at(other.states.rows, places), places
        if self.shown.buffer is not None:
            other.shown.buffer = Buffer(self.shown.buffer.rows.index_select(0, kept))
        return other


def _at(rows: Any, places: Places | None) -> Any:
    """The rows at these places, if there are any rows; all, if no places are named."""
    if rows is None or places is None:
        return rows
    return rows[places] if isinstance(places, slice) else rows.index_select(0, places)


def _first(rows: Tensor, count: int) -> Tensor:
    """The first rows; where that is all of them, without a view."""
    return rows if count == len(rows) else rows[:count]
