"""Who is alive and what each step weighed, by the one rule of all mechanisms:
whoever ends a unit (the mechanism or the step limit) gives it 1 minus the sum of its shares so far."""

import torch
from torch import Tensor

from ponderosa.halting.base import Units
from ponderosa.tree import Tree, over_units, tree_map


class Ledger:
    """The running account of a batch of units, kept by an engine."""

    def __init__(self, units: Units, max_steps: int, like: Tensor):
        self.max_steps = max_steps
        self.alive = torch.ones(units.shape, dtype=torch.bool, device=like.device)
        if units.real is not None:
            self.alive = units.real.to(like.device)
        self.spent = like.new_zeros(units.shape)
        self.steps = torch.zeros(units.shape, dtype=torch.long, device=like.device)
        self.n = 0

    def settle(self, shares: Tensor | None, dones: Tensor, left: Tensor | None = None) -> Tensor:
        """The weights `[k, U]` of the next k steps, from the mechanism's own words `[k, U]` (no shares: none before the end).

        `left` `[U]` is what the last of these steps finds left, where the mechanism knows it better than a difference.
        """
        shares = self.spent.new_zeros(()).expand(dones.shape) if shares is None else shares
        if not shares.shape[1:] == dones.shape[1:] == self.alive.shape:
            raise ValueError(
                f"the halting spoke for units {list(dones.shape[1:])}, but there are {list(self.alive.shape)}: its unit "
                '("example" or "token") must fit what it decides on; an exit decides on the head\'s answer'
            )
        self.n += len(shares)
        going = self.alive & (dones.cumsum(0) == 0)  # after each step
        if self.n == self.max_steps:
            going[-1] = False
        taken = torch.cat([self.alive[None], going[:-1]])
        kept = torch.where(going, shares, 0.0)
        self.alive, self.spent, self.steps = going[-1], self.spent + kept.sum(0), self.steps + taken.sum(0)
        return torch.where(taken ^ going, (1 - self.spent).clamp_min(0) if left is None else left, kept)


def frozen(alive: Tensor, states: Tree, before: Tree) -> Tree:
    """The states after a step, with those of halted units as they were."""
    return tree_map(lambda new, old: torch.where(over_units(alive, old), new, old), states, before)
