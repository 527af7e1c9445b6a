"""The examples under way: all that an engine carries from step to step, gathered together when some of them leave."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ponderosa.engine.head import answer
from ponderosa.engine.packing import advance, real_tokens
from ponderosa.engine.planned import known_steps
from ponderosa.engine.rows import Parts, check_rows, concatenate, replace, select
from ponderosa.halting.base import Halting, Memory, Units
from ponderosa.host import Array, host, tensor
from ponderosa.steps.base import Step
from ponderosa.steps.tokens import Tokens
from ponderosa.tree import Tree, over_units, tree_map


class Live:
    """Examples under way, one row each, under a step and a halting.

    What is computed is carried as tensors; who they are, who is alive and how many steps were taken as arrays on the host.
    """

    def __init__(self, step: Step, halting: Halting, head: nn.Module | None, max_steps: int):
        self.step, self.halting, self.head, self.max_steps = step, halting, head, max_steps
        self.per_token, self.hard = halting.unit == "token", halting.hard
        self.carried: dict[str, Tree] = {}
        self.tokens: Tokens | None = None

    def begin(self, rows: Array, context: Tree, state: Tree, units: Units, memory: Memory) -> Live:
        """Before the first step of the examples that `rows` name; `memory` is what the halting began with."""
        read, count = self.step.read(state), len(rows)
        self.carried = {
            "rows": rows, "taken": np.zeros(count, np.int64),
            "alive": np.ones(units.shape, bool) if units.real is None else host(units.real),
            "context": context, "state": state,
            "memory": tree_map(host, memory) if self.halting.on_host else memory,
            "mask": None if self.per_token else real_tokens(self.step, read, units.mask),
            "head_mask": units.mask if self.halting.reads_output else None,
            "ends": None if self.per_token else known_steps(self.halting, memory, units, self.max_steps),
        }  # fmt: skip
        if self.per_token:
            self.carried |= {"steps": np.zeros(units.shape, np.int64), "going": np.ones(count, bool)}
        if not self.hard:
            self.carried["weights"] = read.new_zeros(*units.shape, self.max_steps)
            self.carried["weighed"] = tree_map(torch.zeros_like, state)
        check_rows(self.carried, count)
        return self

    def __len__(self) -> int:
        return len(self.carried["rows"])

    @property
    def unended(self) -> Array:
        """True for examples that have not ended."""
        return self.carried["going" if self.per_token else "alive"]

    @property
    def going(self) -> Array:
        """Their places."""
        return np.flatnonzero(self.unended)

    @property
    def needed(self) -> Tokens | None:
        """The tokens that are worth computing; None for all."""
        chosen = self.carried["alive"] if self.per_token else self.carried["mask"]
        self.tokens = None if chosen is None else Tokens.of(chosen, self.tokens)
        return self.tokens

    @property
    def sure_steps(self) -> int:
        """How many steps all of them take for sure, with the one that the first ends with, where none has ended yet."""
        carried = self.carried
        return 1 if carried["ends"] is None else int((carried["ends"] - carried["taken"]).min())

    def take_step(self, n: int | None = None, steps: int = 1) -> Array | None:
        """Take step `n`, or each example its own next one or ones; the places of the examples that end with it, None if none
        does."""
        carried = self.carried
        # one number, where all have taken as many; those that are carried along stay at the limit
        next_one: Any = n or np.minimum(carried["taken"] + 1, self.max_steps)
        number = n or tensor(next_one, self.step.read(carried["state"]))
        state = advance(self.step, carried["context"], carried["state"], number, self.needed, steps)
        taken = next_one + steps - 1
        if carried["ends"] is None:
            ending = self._decide(taken, number, state)
        else:
            ending = (taken >= carried["ends"]) & carried["alive"]
        carried["state"], carried["taken"] = state, taken
        return self._end_tokens(ending) if self.per_token else self._end_examples(ending)

    def _decide(self, taken: Any, number: Any, state: Tree) -> Array:
        """The units that end, as the halting says after a step; what they are worth by it is noted."""
        carried, read = self.carried, self.step.read(state)
        output = answer(self.head, read, number, carried["head_mask"]) if self.halting.reads_output else None
        of_units = taken if self.halting.on_host else number
        of_units = of_units if isinstance(taken, int) else self._per_unit(of_units)
        share, done, memory = self.halting.update(of_units, read, output, carried["memory"])
        ending = self._ending(host(done), taken)
        weight = None if self.hard else self._weigh(share, ending, taken, state)
        if output is not None and self.halting.trains_every_step and self.halting.weighs_answers:
            # an exit's answer is its own layer's
            weight = tensor(ending, read).to(read.dtype) if weight is None else weight
            carried["answer"] = _add(carried.get("answer", torch.zeros_like(output)), weight, output)
        carried["memory"] = memory
        return ending

    def _ending(self, done: Array, taken: Any) -> Array:
        """The units that are done, by the halting or by the limit, and were not before."""
        alive = self.carried["alive"]
        if done.shape != alive.shape:
            raise ValueError(
                f"the halting spoke for units {list(done.shape)}, but there are {list(alive.shape)}: its unit "
                '("example" or "token") must fit what it decides on; an exit decides on the head\'s answer'
            )
        if isinstance(taken, int):
            return alive if taken >= self.max_steps else done & alive
        return (done | self._per_unit(taken >= self.max_steps)) & alive

    def _per_unit(self, of_examples: Any) -> Any:
        return of_examples[:, None] if self.per_token else of_examples

    def _end_examples(self, ending: Array) -> Array | None:
        """Note who ends, and where they are."""
        if not ending.any():
            return None
        self.carried["alive"] = self.carried["alive"] ^ ending
        return ending.nonzero()[0]

    def _end_tokens(self, ending: Array) -> Array | None:
        """Note which tokens end, and where the examples are of which they were the last (or none was real)."""
        if not ending.any():
            return None
        carried, taken = self.carried, self.carried["taken"]
        carried["alive"] = carried["alive"] ^ ending
        carried["steps"] = np.where(ending, taken if isinstance(taken, int) else self._per_unit(taken), carried["steps"])
        before, carried["going"] = carried["going"], carried["alive"].any(1)
        places = np.flatnonzero(before & ~carried["going"])
        return places if len(places) else None

    def _weigh(self, share: Tensor | None, ending: Array, taken: Any, state: Tree) -> Tensor:
        """The weights of this step: whoever ends gets 1 minus the sum of its shares so far, as in the ledger."""
        weights, alive = self.carried["weights"], self.carried["alive"]
        share = torch.where(tensor(alive, weights), 0.0 if share is None else share, 0.0)
        share = torch.where(tensor(ending, weights), (1 - weights.sum(-1)).clamp_min(0), share)
        place = over_units(tensor(np.broadcast_to(taken, len(self)) - 1, weights), weights).expand(*share.shape, 1)
        self.carried["weights"] = weights.scatter(-1, place, share[..., None])
        self.carried["weighed"] = tree_map(lambda t, s: _add(t, share, s), self.carried["weighed"], state)
        return share

    def leave(self, places: Array) -> Parts:
        """What the examples at these places leave with."""
        carried = self.carried
        state = carried["state" if self.hard else "weighed"]
        steps = carried["steps" if self.per_token else "taken"]
        found = carried["rows"], state, carried.get("answer"), steps, carried.get("weights")
        rows, state, answered, steps, weights = found if len(places) == len(self) else select(found, places)
        return Parts(rows, state, answered, np.full(len(rows), steps) if isinstance(steps, int) else steps, weights)

    def part(self, places: Array | slice) -> Live:
        """The examples at these places on their own."""
        other = Live(self.step, self.halting, self.head, self.max_steps)
        other.carried = select(self.carried, places)
        return other

    def add(self, other: Live) -> None:
        """Take other examples of the same kind along."""
        self._agree(other)
        self.carried = concatenate(self.carried, other.carried, len(self), len(other))

    def fill(self, other: Live) -> None:
        """Other examples of the same kind take the places of as many that have ended."""
        self._agree(other)
        self.carried = replace(self.carried, other.carried, np.flatnonzero(~self.unended)[: len(other)], len(self))

    def _agree(self, other: Live) -> None:
        """A halting that knows the steps of some only has to be asked about all."""
        if self.carried["ends"] is None or other.carried["ends"] is None:
            self.carried["ends"] = other.carried["ends"] = None

    def drop(self) -> None:
        """Go on without the examples that have ended."""
        self.carried = select(self.carried, self.going)


def _add(total: Tensor, weights: Tensor, values: Tensor) -> Tensor:
    """Add weighed values; what weighs nothing may be anything, infinite numbers included."""
    weights = over_units(weights, values)
    return total + torch.where(weights != 0, weights * values, 0.0)
