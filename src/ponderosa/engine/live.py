"""The examples under way: all that an engine carries from step to step, gathered together when some of them leave."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ponderosa.engine.head import answer
from ponderosa.engine.packing import advance, real_tokens
from ponderosa.engine.rows import Parts, check_rows, concatenate, select
from ponderosa.halting.base import Halting, Units
from ponderosa.steps.base import Step
from ponderosa.steps.tokens import Tokens
from ponderosa.tree import Tree, over_units, tree_map


class Live:
    """Examples under way, one row each, under a step and a halting."""

    def __init__(self, step: Step, halting: Halting, head: nn.Module | None, max_steps: int):
        self.step, self.halting, self.head, self.max_steps = step, halting, head, max_steps
        self.per_token, self.hard = halting.unit == "token", halting.hard
        self.carried: dict[str, Tree] = {}
        self.whole = True
        """Whether no unit that is carried has halted."""
        self.tokens: Tokens | None = None
        self.ends: set[int] | None = None
        """The steps at which somebody may be done; None for any."""

    def begin(self, rows: Tensor, x: Tree, state: Tree, units: Units) -> Live:
        """Before the first step of the examples that `rows` name."""
        read = self.step.read(state)
        alive = torch.ones(units.shape, dtype=torch.bool, device=read.device) if units.real is None else units.real
        self.whole = units.real is None
        self.carried = {
            "rows": rows, "context": self.step.prepare(x, units.mask), "state": state,
            "memory": self.halting.begin(read, units), "alive": alive.to(read.device),
            "mask": None if self.per_token else real_tokens(self.step, read, units.mask),
            "head_mask": units.mask if self.halting.reads_output else None,
            "steps": torch.zeros(units.shape, dtype=torch.long, device=read.device),
            "taken": torch.zeros_like(rows), "ended": torch.zeros_like(rows, dtype=torch.bool) if self.per_token else None,
        }  # fmt: skip
        self.ends = self.halting.ends(self.carried["memory"])
        if not self.hard:
            self.carried["weights"] = read.new_zeros(*units.shape, self.max_steps)
            self.carried["weighed"] = tree_map(torch.zeros_like, state)
        check_rows(self.carried, len(rows))
        return self

    def __len__(self) -> int:
        return len(self.carried["rows"])

    @property
    def going(self) -> Tensor:
        """The places of the examples that have not ended."""
        alive = self.carried["alive"]
        return (alive.any(1) if self.per_token else alive).nonzero().squeeze(1)

    @property
    def needed(self) -> Tokens | None:
        """The tokens that are worth computing; None for all."""
        chosen = self.carried["alive"] if self.per_token else self.carried["mask"]
        self.tokens = None if chosen is None else Tokens.of(chosen, self.tokens)
        return self.tokens

    def take_step(self, n: int | Tensor) -> Tensor | None:
        """Take step `n` (a number, or one per example); the places of the examples that end with it, None if none does."""
        carried = self.carried
        state = advance(self.step, carried["context"], carried["state"], n, self.needed)
        if not (isinstance(n, Tensor) or self._may_end(n)):
            carried["state"] = state
            return None
        read = self.step.read(state)
        output = answer(self.head, read, n, carried["head_mask"]) if self.halting.reads_output else None
        taken, n = n, n[:, None] if self.per_token and isinstance(n, Tensor) else n
        share, done, memory = self.halting.update(n, read, output, carried["memory"])
        carried["state"], carried["memory"] = state, memory  # only now: an error leaves all as it was
        if isinstance(taken, Tensor):
            carried["taken"] = taken
        done = self._newly(self._limited(n, done))
        weight = None if self.hard else self._weigh(n, share, done)
        if output is not None and self.halting.trains_every_step and self.halting.weighs_answers:
            # an exit's answer is its own layer's
            weight = done.to(read.dtype) if weight is None else weight
            carried["answer"] = _add(carried.get("answer", torch.zeros_like(output)), weight, output)
        return self._end_tokens(n, done) if self.per_token else self._end_examples(n, done)

    def _may_end(self, n: int) -> bool:
        return self.ends is None or n in self.ends or n >= self.max_steps

    def _limited(self, n: int | Tensor, done: Tensor) -> Tensor:
        if done.shape != self.carried["alive"].shape:
            raise ValueError(
                f"the halting spoke for units {list(done.shape)}, but there are {list(self.carried['alive'].shape)}: its unit "
                '("example" or "token") must fit what it decides on; an exit decides on the head\'s answer'
            )
        if isinstance(n, Tensor):
            return done | (n >= self.max_steps)
        return torch.ones_like(done) if n >= self.max_steps else done

    def _newly(self, done: Tensor) -> Tensor:
        """Of the units that are done, those that were not before."""
        return done if self.whole else done & self.carried["alive"]

    def _end_examples(self, n: int | Tensor, done: Tensor) -> Tensor | None:
        """Note who is done, and where they are."""
        places = done.nonzero().squeeze(1)
        if not len(places):
            return None
        self._note(n, done)
        return places

    def _end_tokens(self, n: int | Tensor, done: Tensor) -> Tensor | None:
        """Note which tokens are done, and where the examples are of which they were the last (or none was real)."""
        if not done.any():
            return None
        self._note(n, done)
        ended, counts = self.carried["ended"], self.needed.counts  # type: ignore[union-attr]
        places = [i for i, (before, left) in enumerate(zip(ended.tolist(), counts, strict=True)) if not (before or left)]
        if not places:
            return None
        found = torch.tensor(places, device=ended.device)
        self.carried["ended"] = ended.index_fill(0, found, True)
        return found

    def _note(self, n: int | Tensor, done: Tensor) -> None:
        carried = self.carried
        carried["alive"], carried["steps"] = carried["alive"] ^ done, torch.where(done, n, carried["steps"])
        self.whole = False

    def _weigh(self, n: int | Tensor, share: Tensor | None, done: Tensor) -> Tensor:
        """The weights of this step: whoever ends gets 1 minus the sum of its shares so far, as in the ledger."""
        weights = self.carried["weights"]
        share = torch.where(self.carried["alive"], 0.0 if share is None else share, 0.0)
        share = torch.where(done, (1 - weights.sum(-1)).clamp_min(0), share)
        place = torch.as_tensor(n, device=share.device).expand_as(share)[..., None] - 1
        self.carried["weights"] = weights.scatter(-1, place, share[..., None])
        self.carried["weighed"] = tree_map(lambda t, s: _add(t, share, s), self.carried["weighed"], self.carried["state"])
        return share

    def leave(self, places: Tensor) -> Parts:
        """What the examples at these places leave with."""
        carried = self.carried
        state = carried["state"] if self.hard else carried["weighed"]
        found = (carried["rows"], state, carried.get("answer"), carried["steps"], carried.get("weights"))
        return Parts(*(found if len(places) == len(self) else select(found, places)))

    @property
    def depths(self) -> Tensor:
        """The number of each example's next step `[rows]`, where they differ; those carried along stay at the limit."""
        return (self.carried["taken"] + 1).clamp_max(self.max_steps)

    def part(self, places: Tensor) -> Live:
        """The examples at these places on their own."""
        other = Live(self.step, self.halting, self.head, self.max_steps)
        other.carried, other.whole, other.ends = select(self.carried, places), self.whole, self.ends
        return other

    def add(self, other: Live) -> None:
        """Take other examples of the same kind along."""
        self.carried = concatenate(self.carried, other.carried, len(self), len(other))
        self.whole = self.whole and other.whole
        self.ends = None if self.ends is None or other.ends is None else self.ends | other.ends

    def drop(self) -> None:
        """Go on without the examples that have ended."""
        self.carried, self.whole = select(self.carried, self.going), not self.per_token


def _add(total: Tensor, weights: Tensor, values: Tensor) -> Tensor:
    """Add weighed values; what weighs nothing may be anything, infinite numbers included."""
    weights = over_units(weights, values)
    return total + torch.where(weights != 0, weights * values, 0.0)
