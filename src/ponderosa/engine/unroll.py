"""The masked unroll, for training: every unit goes along until all have halted, and autograd sees it all."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ponderosa.engine.head import answers, last_answer
from ponderosa.engine.ledger import Ledger, frozen, weigh
from ponderosa.engine.packing import advance
from ponderosa.gate import Gate
from ponderosa.halting.base import Halting, Memory, Units
from ponderosa.signature import takes
from ponderosa.solution import Solution
from ponderosa.steps.base import Step
from ponderosa.steps.tokens import Tokens
from ponderosa.steps.transformer import TokenStep
from ponderosa.tree import Tree, leaves, tree_map


def unroll(
    step: Step, halting: Halting, head: nn.Module | None, x: Tree, state: Tree, units: Units, max_steps: int
) -> Solution:
    """Run `step` under `halting` with masks: a halted unit is frozen, its state no longer changes."""
    context, memory = step.prepare(x, units.mask), halting.begin(step.read(state), units)
    ledger = Ledger(units, max_steps, like=step.read(state), in_c=step.once_differentiable)
    every_step = halting.training and halting.trains_every_step
    weights, outputs, weighed = [], [], None
    whole = every_step or not halting.adaptive or torch.compiler.is_compiling()  # no end before the limit, or none to be seen
    packs = every_step and _packs(step, halting, units)
    gate = _gate(step, halting, context, state)
    while ledger.n == 0 or (ledger.n < max_steps and (whole or ledger.alive.any())):
        first, logits = ledger.n + 1, None
        if packs:
            active = Tokens(ledger.alive if halting.freezes or units.mask is None else units.mask)
            states = tree_map(lambda s: s[None], advance(step, context, state, first, active))
        elif whole and (halting.unit != "token" or (every_step and not halting.freezes)):
            states, logits = take_steps(step, context, state, first, max_steps, gate=gate)
        elif hasattr(step, "unroll") and halting.unit != "token":
            stop = _Look(step, halting, head, memory, ledger, units.mask)
            states, logits = take_steps(step, context, state, first, max_steps - ledger.n, stop, gate)
        else:
            states = frozen(ledger.alive, _step(step, context, state, first, ledger.alive), state)
        reads = step.read(states)
        answered = answers(head, reads, first, units.mask) if every_step or halting.reads_output else None
        if logits is None:
            shares, dones, memory = halting.scan(first, reads, answered, memory)
        else:
            shares, dones, memory = halting.scan_logits(first, logits, memory)
        new, total = ledger.settle(shares, dones, memory.get("left"), states)
        weights.append(new)
        weighed = total if weighed is None else tree_map(torch.add, weighed, total)
        if ledger.n < max_steps:
            state = tree_map(lambda s: s[-1], states)
        if answered is not None:
            outputs.append(answered)
    all_weights = _rows(weights, ledger)
    all_outputs = torch.cat(outputs) if outputs else None
    if all_outputs is not None and halting.trains_every_step and halting.weighs_answers:
        output = _weigh_answers(all_weights[: len(all_outputs)], all_outputs, step.once_differentiable)
    else:
        output = last_answer(head, step.read(weighed), ledger.steps, units.mask)
    return Solution(
        output, all_weights, ledger.steps, weighed, all_outputs if every_step else None, units.mask,
        distribution=every_step and not halting.reads_output,
    )  # fmt: skip


class _Look:
    """Says how many steps are still needed, by the states of the latest ones: ahead of the ledger, without gradients."""

    def __init__(
        self, step: Step, halting: Halting, head: nn.Module | None, memory: Memory, ledger: Ledger, mask: Tensor | None
    ):
        self.step, self.halting, self.head, self.mask = step, halting, head, mask
        self.memory, self.alive, self.spent, self.n = memory, ledger.alive, ledger.spent, ledger.n

    @torch.no_grad()
    def __call__(self, states: Tree) -> int:
        """After how many steps to look again; 0 where everyone has halted."""
        reads = self.step.read(states)
        answered = answers(self.head, reads, self.n + 1, self.mask) if self.halting.reads_output else None
        shares, dones, self.memory = self.halting.scan(self.n + 1, reads, answered, self.memory)
        self.n += len(dones)
        self.alive = self.alive & ~dones.any(0)
        if not self.alive.any():
            return 0
        return max(1, self.n // 2 if shares is None else self._ahead(shares))

    def _ahead(self, shares: Tensor) -> int:
        """The further steps of the slowest unit, if it goes on at its pace."""
        self.spent = self.spent + shares.sum(0)
        slowest = float(torch.where(self.alive, self.spent, 1.0).min())
        return math.ceil(self.n * min(1 / max(slowest, 1e-6) - 1, 1e6))


def take_steps(
    step: Step, context: Tree, state: Tree, first: int, count: int, stop: Callable[[Tree], int] | None = None,
    gate: Gate | None = None,
) -> tuple[Tree, Tensor | None]:  # fmt: skip
    """The states of `count` steps, stacked in front of every tensor of the state; of fewer, where `stop` or `gate` says so.
    And what the gate read of them, where the step has read them with it."""
    if hasattr(step, "unroll"):
        own: Any = getattr(type(step), "unroll", step.unroll)  # one of a user's may know of neither
        told = {k: given for k, given in (("stop", stop), ("gate", gate)) if given is not None and takes(own, k)}
        states = step.unroll(context, state, first, count, **told)  # type: ignore[operator]
        return states if "gate" in told else (states, None)
    return step.advance_through(context, state, first, count), None


def _gate(step: Step, halting: Halting, context: Tree, state: Tree) -> Gate | None:
    """The halting unit, where a step that unrolls itself can read its states with it: as they are, in their own precision.
    Where the states need no gradient, it is trained alone, by torch."""
    gate = halting.linear_gate() if step.once_differentiable and type(step).read is Step.read else None
    if gate is None or not isinstance(state, Tensor) or torch.is_autocast_enabled(state.device.type):
        return None
    if torch.is_grad_enabled() and not any(leaf.requires_grad for leaf in leaves((context, state))):
        return None
    alike = gate.weight.dtype == gate.bias.dtype == state.dtype and gate.weight.device == state.device
    return gate if alike and state.ndim == 2 and gate.weight.shape == (1, state.shape[-1]) else None


def _packs(step: Step, halting: Halting, units: Units) -> bool:
    """Whether a training of every step leaves out some tokens: padding, and halted ones where they are frozen."""
    leaves_out = halting.freezes or (units.mask is not None and not bool(units.mask.all()))
    return isinstance(step, TokenStep) and not torch.compiler.is_compiling() and leaves_out


def _step(step: Step, context: Tree, state: Tree, n: int, alive: Tensor) -> Tree:
    """One step, stacked like several; a step whose tokens see each other is told which of them have not halted."""
    if isinstance(step, TokenStep):
        return tree_map(lambda s: s[None], step.advance(context, state, n, alive if alive.ndim > 1 else None))
    return take_steps(step, context, state, n, 1)[0]


def _weigh_answers(weights: Tensor, outputs: Tensor, in_c: bool) -> Tensor:
    """The answers of all steps, weighed: each unit must have answers of its own."""
    if outputs.shape[: weights.ndim] != weights.shape:
        raise ValueError(
            f"the halting weighs the answers of units {list(weights.shape[1:])}, but the head's are {list(outputs.shape[1:])}: "
            'use unit="example", or a head that answers for each token'
        )
    return weigh(weights, outputs, in_c)


def _rows(weights: list[Tensor], ledger: Ledger) -> Tensor:
    """The weights of all steps up to the limit; those that nobody reached are zero."""
    if len(weights) == 1 and ledger.n == ledger.max_steps:
        return weights[0]
    missing = ledger.spent.new_zeros(ledger.max_steps - ledger.n, *ledger.spent.shape)
    return torch.cat([*weights, missing])
