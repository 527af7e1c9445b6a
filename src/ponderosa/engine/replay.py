"""Many settings of a halting for the price of one run: every step is taken once, then each setting is replayed.

Examples do not see each other, so what a step does to one does not depend on who has halted.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ponderosa.engine.head import answers, last_answer
from ponderosa.engine.ledger import Ledger
from ponderosa.engine.unroll import take_steps
from ponderosa.halting.base import Halting, Units
from ponderosa.steps.base import Step
from ponderosa.tree import Tree, over_units, tree_map


@dataclass(frozen=True)
class Trace:
    """Every step of a batch."""

    start: Tensor
    """h_0 as it is read."""
    states: Tree
    """After each step `[steps, batch, ...]`."""
    answers: Tensor
    """Each step's own `[steps, batch, ...]`."""
    units: Units


def trace(step: Step, head: nn.Module | None, x: Tree, state: Tree, units: Units, max_steps: int) -> Trace:
    """Take all steps of a batch, and answer after each of them."""
    states, _ = take_steps(step, step.prepare(x, units.mask), state, 1, max_steps)
    return Trace(step.read(state), states, answers(head, step.read(states), 1, units.mask), units)


def replay(
    seen: Trace, step: Step, halting: Halting, head: nn.Module | None, limits: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The answers `[settings, batch, ...]` and steps `[settings, batch]` under a halting whose knob is set to
    `[settings, 1]`, or under `limits` `[settings, 1]` on the number of steps.
    """
    reads, memory = step.read(seen.states), halting.begin(seen.start, seen.units)
    # step by step: a mechanism's closed form has no room for an axis of settings
    shares, dones, _ = Halting.scan(halting, 1, reads, seen.answers if halting.reads_output else None, memory)
    steps_all, examples = reads.shape[:2]
    dones = dones if dones.ndim > 2 else dones[:, None]
    if limits is not None:
        dones = dones | (torch.arange(1, steps_all + 1, device=dones.device).view(-1, 1, 1) >= limits)
    ledger = Ledger(Units(dones.shape[1:]), steps_all, like=seen.start)
    weights, _ = ledger.settle(None if shares is None else shares[:, None].expand(dones.shape), dones)
    if halting.hard:
        return seen.answers[ledger.steps - 1, torch.arange(examples, device=dones.device)], ledger.steps
    # a linear head may weigh its answers as well as the states, which are many more numbers
    if (halting.reads_output and halting.trains_every_step) or (reads is seen.states and isinstance(head, nn.Linear)):
        return _weigh(weights, seen.answers), ledger.steps
    weighed = step.read(tree_map(lambda states: _weigh(weights, states), seen.states))
    mask = seen.units.mask
    repeated = None if mask is None else mask.expand(len(weighed), *mask.shape).flatten(0, 1)
    output = last_answer(head, weighed.flatten(0, 1), ledger.steps.flatten(), repeated)
    return output.unflatten(0, ledger.steps.shape), ledger.steps


def _weigh(weights: Tensor, values: Tensor) -> Tensor:
    """The sums `[settings, batch, ...]` of values `[steps, batch, ...]`, weighed by `[steps, settings, batch]`."""
    counted = over_units((weights != 0).any(1), values)  # what weighs nothing may be anything, infinite numbers included
    return torch.einsum("nkb,nb...->kb...", weights, torch.where(counted, values, 0.0))
