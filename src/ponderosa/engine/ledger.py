"""Who is alive and what each step weighed, by the one rule of all mechanisms:
whoever ends a unit (the mechanism or the step limit) gives it 1 minus the sum of its shares so far."""

import torch
from torch import Tensor

from ponderosa.engine.ledger_native import Settle, Weigh, fits
from ponderosa.halting.base import Units
from ponderosa.tree import Tree, over_units, tree_map


class Ledger:
    """The running account of a batch of units, kept by an engine."""

    def __init__(self, units: Units, max_steps: int, like: Tensor, in_c: bool = False):
        self.max_steps, self.in_c = max_steps, in_c
        self.alive = torch.ones(units.shape, dtype=torch.bool, device=like.device)
        if units.real is not None:
            self.alive = units.real.to(like.device)
        self.spent = like.new_zeros(units.shape)
        self.steps = torch.zeros(units.shape, dtype=torch.long, device=like.device)
        self.n = 0

    def settle(
        self, shares: Tensor | None, dones: Tensor, left: Tensor | None = None, values: Tree = None
    ) -> tuple[Tensor, Tree]:
        """The weights `[k, U]` of the next k steps, from the mechanism's own words `[k, U]` (no shares: none before the end),
        and what values `[k, U, ...]` weigh by them.

        `left` `[U]` is what the last of these steps finds left, where the mechanism knows it better than a difference.
        """
        if not dones.shape[1:] == self.alive.shape or not (shares is None or shares.shape == dones.shape):
            raise ValueError(
                f"the halting spoke for units {list(dones.shape[1:])}, but there are {list(self.alive.shape)}: its unit "
                '("example" or "token") must fit what it decides on; an exit decides on the head\'s answer'
            )
        self.n += len(dones)
        account = self.alive, self.spent, self.steps, self.n == self.max_steps
        if self.in_c and isinstance(values, Tensor) and _whole(shares, dones, left, values):
            weights, weighed, self.alive, self.spent, self.steps = Settle.apply(shares, dones, left, values, *account)
            return weights, weighed
        weights, self.alive, self.spent, self.steps = settled(shares, dones, left, *account)
        return weights, tree_map(lambda leaf: weigh(weights, leaf), values)


def _whole(shares: Tensor | None, dones: Tensor, left: Tensor | None, values: Tensor) -> bool:
    """Whether all this is as C reads it."""
    numbers = [values, *(given for given in (shares, left) if given is not None)]
    shapes = left is None or left.shape == dones.shape[1:], values.shape[: dones.ndim] == dones.shape
    return all(shapes) and dones.dtype == torch.bool and fits(*numbers)


def settled(
    shares: Tensor | None, dones: Tensor, left: Tensor | None, alive: Tensor, spent: Tensor, steps: Tensor, limit: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The weights `[k, U]`, and alive, spent and steps after them; with `limit`, nobody goes on after the last."""
    shares = spent.new_zeros(()).expand(dones.shape) if shares is None else shares
    going = alive & (dones.cumsum(0) == 0)  # after each step
    if limit:
        going[-1] = False
    taken = torch.cat([alive[None], going[:-1]])
    kept = torch.where(going, shares, 0.0)
    spent = spent + kept.sum(0)
    weights = torch.where(taken ^ going, (1 - spent).clamp_min(0) if left is None else left, kept)
    return weights, going[-1], spent, steps + taken.sum(0)


def weigh(weights: Tensor, values: Tensor, in_c: bool = False) -> Tensor:
    """The sum of values `[k, U, ...]` over the steps, weighed `[k, U]`; in C, where second derivatives are not asked for."""
    if in_c and values.shape[: weights.ndim] == weights.shape and fits(weights, values):
        return Weigh.apply(weights, values)
    return (over_units(weights, values) * values).sum(0)


def frozen(alive: Tensor, states: Tree, before: Tree) -> Tree:
    """The states after a step, with those of halted units as they were."""
    return tree_map(lambda new, old: torch.where(over_units(alive, old), new, old), states, before)
