"""The contract of a halting: what share of the answer is this step's, and is the unit done."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ponderosa.gate import Gate
from ponderosa.halting.knob import Knob
from ponderosa.halting.losses import Criterion
from ponderosa.keys import content_key, token_keys
from ponderosa.solution import Solution
from ponderosa.tree import Tree

Unit = Literal["batch", "example", "token"]
Memory = dict[str, Any]
Verdict = tuple[Tensor | None, Tensor, Memory]
"""Each unit's share (None where the answer is one step's alone), whether it is done, the memory."""


@dataclass(frozen=True)
class Units:
    """What halts on its own in one batch, as a mechanism sees it when it begins."""

    shape: torch.Size
    """`[batch]`, or `[batch, token]`."""
    inputs: Tree = None
    mask: Tensor | None = None
    """True for what is not padding `[batch, token]`."""
    given_key: Tensor | None = None
    """A number that names each example `[batch]`; without one, its content names it."""
    depth: Tensor | None = None
    """A depth per unit, where the caller knows it in advance."""

    @property
    def key(self) -> Tensor:
        """A number that names each unit, whatever else is in the batch."""
        key = self.given_key
        if key is None:
            key = content_key(self.inputs, self.mask)
        return token_keys(key, self.shape[1], self.mask) if len(self.shape) > 1 else key

    @property
    def real(self) -> Tensor | None:
        """True for the units that are not padding, or None if all are real."""
        return self.mask if len(self.shape) > 1 else None


_TOGETHER = ("begin", "update", "on_host", "depths", "latest")
"""What a subclass overrides together, or loses: promises about one that hold for another's code do not hold for its own."""


class Halting(nn.Module, ABC):
    """When to stop. Subclass it, implement `begin`, `update` and `loss`, and every engine runs it.

    The memory is a dict of tensors whose leading axes are the units' (or only the batch's): an engine
    gathers it together with the state when it drops units, and a user can step by hand.
    """

    unit: Unit = "example"
    reads_output: bool = False
    """Whether `update` wants the head's answer at each step (exits)."""
    trains_every_step: bool = False
    """Whether training needs every step and its own answer (PonderNet, exits)."""
    weighs_answers: bool = True
    """Whether a run that trains every step weighs their answers; if not, it answers from the weighed state."""
    freezes: bool = False
    """Whether halted tokens keep their state in training, too, where every step is trained."""
    adaptive: bool = True
    """Whether the number of steps may differ from the limit: a run in which it never does has collapsed."""
    on_host: bool = False
    """Whether `update` can also be given its memory, and an `n` that differs between units, as numpy arrays on the host, and
    then says so who is done. Engines that drop units do that: after a large matrix product small torch operations are dear.
    Whoever overrides `begin` or `update` has to say it again."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        said = {name: next(i for i, c in enumerate(cls.__mro__) if name in vars(c)) for name in _TOGETHER}
        if min(said["begin"], said["update"]) < said["on_host"]:
            cls.on_host = False
        if said["update"] < said["depths"]:
            cls.depths = Halting.depths  # type: ignore[method-assign]
        if said["update"] < said["latest"]:
            cls.latest = Halting.latest  # type: ignore[method-assign]

    @property
    def hard(self) -> bool:
        """Whether the answer is one step's alone, so there are no shares: then halted units can leave training, too."""
        return False

    def build(self, size: int | None) -> None:
        """Make what must know the size of the state; called once by `Ponder`, does nothing by default."""

    @abstractmethod
    def begin(self, state: Tensor, units: Units) -> Memory:
        """The memory before the first step. `state` is the tensor that the step says is read."""

    def depths(self, memory: Memory) -> Tensor | None:
        """How many steps each unit takes, where a hard mechanism knows it before the first one: then `update` need not be
        asked. More than the limit is the limit. Whoever overrides `update` has to say it again."""
        return None

    def latest(self, memory: Memory) -> Tensor | None:
        """The most steps that each token takes, where a hard mechanism knows it before the first one, and `update` ends only
        whole examples sooner, by the head's answers: as the state it is then given packed rows, in no order. Whoever overrides
        `update` has to say it again."""
        return None

    def linear_gate(self) -> Gate | None:
        """The halting unit, where it is one linear layer on an example's state: a step that unrolls itself may read its states
        with it, and `scan_logits` is told what it read."""
        return None

    @abstractmethod
    def update(self, n: int | Tensor, state: Tensor, output: Tensor | None, memory: Memory) -> Verdict:
        """After step `n` (1, 2, ..., or one number per unit): each unit's share, whether it is done, the memory.

        The engine gives a unit that ends what its earlier shares left, so a mechanism that answers
        with a single step (`hard`) has no shares to name: None.
        """

    @abstractmethod
    def loss(self, solution: Solution, target: Tensor, criterion: Criterion) -> Tensor:
        """The task's loss as this mechanism weighs it, and its own terms: a scalar."""

    term_names: tuple[str, ...] = ()
    """The names of the loss terms of its own, for the log."""

    def terms(self, solution: Solution) -> dict[str, Tensor]:
        """The loss terms of its own, before they are weighed, by `term_names`."""
        return {}

    def knob(self, limit: int) -> Knob | None:
        """What is turned at inference to think longer or stop sooner; None where that is only the limit on steps.

        A sweep sets it to many settings at once, `[settings, 1]`: `update` then says of each whether the examples are done
        `[settings, batch]`. So it must broadcast, and what a unit remembers must not depend on the setting.
        """
        return None

    def scan(self, first: int, states: Tensor, outputs: Tensor | None, memory: Memory) -> Verdict:
        """`update` over the steps `first, first + 1, ...`, stacked on the first axis.

        Mechanisms whose shares have a closed form say it here, which is faster in training; the
        test suite holds the two to be equal.
        """
        shares: list[Tensor] = []
        dones: list[Tensor] = []
        for k, state in enumerate(states):
            share, done, memory = self.update(first + k, state, None if outputs is None else outputs[k], memory)
            shares += [] if share is None else [share]
            dones.append(done)
        return torch.stack(shares) if shares else None, torch.stack(dones), memory

    def scan_logits(self, first: int, logits: Tensor, memory: Memory) -> Verdict:
        """`scan` by what the linear gate read of the states `[steps, batch]`."""
        raise NotImplementedError(f"{type(self).__name__} has a linear_gate, so it needs a scan_logits")


def check_choice(name: str, given: str, *choices: str, why: str = "") -> None:
    """Refuse what is none of the choices; `why` says what rules the others out."""
    if given not in choices:
        words = " or ".join(f'"{choice}"' for choice in choices)
        raise ValueError(f"{name}={given!r}: choose {words}{why and f', since {why}'}")
