"""Depths known in advance: the examples stand in the order of their depths, deepest first, so those that leave are always the
last ones, and between two steps nothing is looked at or gathered."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import torch
from torch import Tensor

from ponderosa.engine.packing import advance, real_tokens
from ponderosa.engine.planned_tokens import advance_tokens, stays_packed
from ponderosa.engine.rows import check_rows, going, select
from ponderosa.halting.base import Halting, Memory, Units
from ponderosa.host import Array, host
from ponderosa.steps.base import Step
from ponderosa.steps.tokens import Tokens
from ponderosa.tree import Tree, tree_map


def known_steps(halting: Halting, memory: Memory, units: Units, max_steps: int) -> Array | None:
    """The steps that units take, 0 for padding, where the halting knows them before the first one."""
    return _steps(halting.depths(memory) if halting.hard else None, units, max_steps)


def latest_steps(halting: Halting, memory: Memory, units: Units, max_steps: int) -> Array | None:
    """The most steps that units take, 0 for padding, where the halting knows that before the first one."""
    return _steps(halting.latest(memory) if halting.hard else None, units, max_steps)


def _steps(depths: Tensor | None, units: Units, max_steps: int) -> Array | None:
    if depths is None:
        return None
    if depths.shape != units.shape or depths.is_floating_point() or depths.is_complex():
        raise ValueError(
            f"the halting's depths are {depths.dtype} {list(depths.shape)}: a whole number for each of the units "
            f"{list(units.shape)} is needed"
        )
    steps = np.minimum(np.maximum(host(depths).astype(np.int64), 1), max_steps)
    return steps if units.real is None else steps * host(units.real)


def as_planned(step: Step, context: Tree, state: Tree, units: Units, steps: Array) -> Tree:
    """The state after each unit's own `steps` `[batch]` or `[batch, token]`, 0 for padding."""
    per_token = steps.ndim > 1
    deepest = steps.max(1, initial=0) if per_token else steps
    order = None if (deepest[1:] <= deepest[:-1]).all() else np.argsort(-deepest, kind="stable")
    real = None if units.mask is None else real_tokens(step, step.read(state), units.mask)
    of_tokens = steps if per_token else None if real is None else steps[:, None] * real
    if of_tokens is not None and len(steps) and stays_packed(step):
        return advance_tokens(step, context, state, order, of_tokens, real)
    check_rows((context, state), len(steps))
    if order is None:
        return _advance(step, context, state, deepest, of_tokens)
    context, state, deepest, of_tokens = select((context, state, deepest, of_tokens), order)
    return select(_advance(step, context, state, deepest, of_tokens), order.argsort())


def _advance(step: Step, context: Tree, state: Tree, deepest: Array, of_tokens: Array | None) -> Tree:
    """All steps of examples that stand deepest first."""
    rows, left, n = len(deepest), [], 1
    for count, same in groupby(going(deepest) or [0]):  # an empty batch, too: its state is then of the right kind
        steps = len(list(same))
        if count < rows:
            left.append(tree_map(torch.clone, select(state, slice(count, None))))  # a view would keep all of it in memory
            context, state, of_tokens = select((context, state, of_tokens), slice(count))
            rows = count
        if of_tokens is None:
            state = step.advance_by(context, state, n, steps)
        else:
            for k in range(n, n + steps):
                state = advance(step, context, state, k, Tokens(of_tokens >= k))
        n += steps
    return tree_map(lambda *parts: torch.cat(parts), state, *reversed(left)) if left else state
