"""Inference that drops what has halted: after each step the examples that are done leave the batch."""

from typing import Any

import torch
from torch import Tensor, nn

from ponderosa.engine.head import answer, last_answer
from ponderosa.engine.ledger import Ledger, frozen
from ponderosa.halting.base import Halting, Units
from ponderosa.solution import Solution
from ponderosa.steps.base import Step
from ponderosa.tree import Tree, over_units, tree_map


@torch.no_grad()
def compact(
    step: Step, halting: Halting, head: nn.Module | None, x: Tree, state: Tree, units: Units, max_steps: int
) -> Solution:
    """The masked unroll's result in evaluation, without computing examples that have halted."""
    context, memory = step.prepare(x), halting.begin(step.read(state), units)
    ledger = Ledger(units, max_steps, like=step.read(state))
    results = _Results(ledger, max_steps)
    rows = torch.arange(units.shape[0], device=ledger.alive.device)
    weighed: Tree = tree_map(torch.zeros_like, state)
    answered: Tensor | None = None
    while ledger.n < max_steps and len(rows):
        n = ledger.n + 1
        after = step.advance(context, state, n)
        state = frozen(ledger.alive, after, state) if halting.unit == "token" else after
        output = answer(head, step.read(state), n) if halting.reads_output else None
        share, done, memory = halting.update(n, step.read(state), output, memory)
        weights = ledger.settle(share[None], done[None])[0]
        weighed = _add(weighed, weights, state)
        if output is not None and halting.trains_every_step:
            part = over_units(weights, output) * output
            answered = part if answered is None else answered + part
        results.weights[n - 1, rows] = weights
        going = ledger.alive.flatten(1).any(1) if ledger.alive.ndim > 1 else ledger.alive
        if going.all() and n < max_steps:
            continue
        results.leave(rows, ~going, weighed, answered, ledger.steps)
        stay = going.nonzero()[:, 0]
        rows, context, state, memory, weighed, answered = (
            _select(tree, stay, len(going)) for tree in (rows, context, state, memory, weighed, answered)
        )
        ledger.keep(stay)
    if results.state is None:  # an empty batch
        results.state = weighed
    output = last_answer(head, step.read(results.state), results.steps) if results.output is None else results.output
    return Solution(output, results.weights, results.steps, results.state, None, units.mask)


class _Results:
    """Where examples put down what they leave with."""

    def __init__(self, ledger: Ledger, max_steps: int):
        self.weights = ledger.spent.new_zeros(max_steps, *ledger.spent.shape)
        self.steps = torch.zeros_like(ledger.steps)
        self.state: Tree = None
        self.output: Tensor | None = None

    def leave(self, rows: Tensor, leaving: Tensor, state: Tree, output: Tensor | None, steps: Tensor) -> None:
        batch, gone = len(self.steps), rows[leaving]
        if self.state is None:
            self.state = tree_map(lambda s: s.new_zeros(batch, *s.shape[1:]), state)
            self.output = None if output is None else output.new_zeros(batch, *output.shape[1:])
        tree_map(lambda kept, s: kept.index_copy_(0, gone, s[leaving]), self.state, state)
        if self.output is not None and output is not None:
            self.output.index_copy_(0, gone, output[leaving])
        self.steps[gone] = steps[leaving]


def _add(weighed: Tree, weights: Tensor, state: Tree) -> Tree:
    return tree_map(lambda total, s: total + over_units(weights, s) * s, weighed, state)


def _select(tree: Tree, rows: Tensor, batch: int) -> Tree:
    """The chosen examples of every tensor: a first axis that only happens to have the batch's length must not pass for it."""

    def select(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or not leaf.ndim:
            return leaf
        if len(leaf) != batch:
            raise ValueError(
                f"a tensor of the step's context or of the halting's memory is {list(leaf.shape)}: its first axis must be "
                f"the batch, here {batch}, so that examples can leave; keep what all examples share in the module"
            )
        return leaf.index_select(0, rows)

    return tree_map(select, tree)
