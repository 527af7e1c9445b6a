"""Halted work that is really not done: after each step the examples that are done leave the batch, and tokens that are
done are only attended to. Gradients go through it, so training skips, too."""

import numpy as np
import torch
from torch import Tensor, nn

from ponderosa.engine.head import last_answer
from ponderosa.engine.live import Live
from ponderosa.engine.planned import as_planned, known_steps, latest_steps
from ponderosa.engine.planned_exits import advance_until
from ponderosa.engine.planned_tokens import stays_packed
from ponderosa.engine.rows import Parts, in_a_row, join
from ponderosa.engine.slices import at_once, slices
from ponderosa.engine.thrift import Thrift
from ponderosa.halting.base import Halting, Memory, Units
from ponderosa.host import Array, tensor
from ponderosa.solution import Solution
from ponderosa.steps.base import Step
from ponderosa.tree import Tree, over_units, tree_map


def compact(
    step: Step, halting: Halting, head: nn.Module | None, x: Tree, state: Tree, units: Units, max_steps: int
) -> Solution:
    """The masked unroll's result without computing what has halted."""
    memory, context = halting.begin(step.read(state), units), step.prepare(x, units.mask)
    examples = at_once(step, halting, step.read(state))
    parts = [_taken(step, halting, head, *each, max_steps) for each in slices(context, state, units, memory, examples)]
    return solution(step, head, in_a_row(parts), units, max_steps)


def _taken(
    step: Step, halting: Halting, head: nn.Module | None, rows: slice, context: Tree, state: Tree, units: Units, memory: Memory,
    max_steps: int,
) -> Parts:  # fmt: skip
    """What all examples leave with, in their order."""
    numbers, steps = np.arange(rows.start, rows.stop), known_steps(halting, memory, units, max_steps)
    if steps is not None:
        return Parts(numbers, as_planned(step, context, state, units, steps), None, steps, None)
    latest = latest_steps(halting, memory, units, max_steps)
    if latest is not None and stays_packed(step) and isinstance(state, Tensor):
        return advance_until(step, halting, head, context, state, units, memory, latest, numbers)
    live = Live(step, halting, head, max_steps).begin(numbers, context, state, units, memory)
    thrift, parts, halted = Thrift(step, step.read(state)), [], 0
    for n in range(1, max_steps + 1):
        if thrift.pays(halted, len(live) - halted):
            live.drop()
            halted = 0
        ended = live.take_step(n)
        if ended is not None:
            parts.append(live.leave(ended))
            halted += len(ended)
        if halted == len(live):
            break
    return join(parts or [live.leave(np.arange(len(numbers)))])


def solution(step: Step, head: nn.Module | None, parts: Parts, units: Units, max_steps: int) -> Solution:
    """What all examples left with, as a solution."""
    output, steps, state = answered(step, head, parts, units)
    weights = _last(parts.steps, max_steps, step.read(state)) if parts.weights is None else parts.weights.movedim(-1, 0)
    return Solution(output, weights, steps, state, None, units.mask)


def answered(step: Step, head: nn.Module | None, parts: Parts, units: Units) -> tuple[Tensor, Tensor, Tree]:
    """The answers, the steps, and the states that examples left with."""
    state = parts.state
    if units.real is not None:  # padding took no step
        real = units.real.to(step.read(state).device)
        state = tree_map(lambda s: torch.where(over_units(real, s), s, 0.0), state)
    read = step.read(state)
    steps = tensor(parts.steps, read)
    return last_answer(head, read, steps, units.mask) if parts.output is None else parts.output, steps, state


def _last(steps: Array, max_steps: int, like: Tensor) -> Tensor:
    """The weights of answers that are the last step's alone `[max_steps, U]`."""
    numbers = np.arange(1, max_steps + 1).reshape(-1, *(1,) * steps.ndim)
    return tensor(numbers == steps, like).to(like.dtype)
