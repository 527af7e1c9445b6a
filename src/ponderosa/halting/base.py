"""The contract of a halting: what share of the answer is this step's, and is the unit done."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ponderosa.halting.knob import Knob
from ponderosa.keys import content_key, token_keys
from ponderosa.solution import Solution
from ponderosa.tree import Tree
from ponderosa.until import Until

Unit = Literal["batch", "example", "token"]
Memory = dict[str, Any]
Verdict = tuple[Tensor | None, Tensor, Memory]
"""Each unit's share (None where the answer is one step's alone), whether it is done, the memory."""
Criterion = Callable[..., Tensor]


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

    @property
    def hard(self) -> bool:
        """Whether the answer is one step's alone, so there are no shares: then halted units can leave training, too."""
        return False

    def build(self, size: int | None) -> None:
        """Make what must know the size of the state; called once by `Ponder`, does nothing by default."""

    @abstractmethod
    def begin(self, state: Tensor, units: Units) -> Memory:
        """The memory before the first step. `state` is the tensor that the step says is read."""

    def ends(self, memory: Memory) -> set[int] | None:
        """The steps at which some unit may be done, where that is known before the first one; None for any step.

        At the others an engine need not ask: `update` is not called, so it must have nothing to remember there.
        """
        return None

    def until(self) -> Until | None:
        """Where the sum of a learned unit over the steps ends every example: what C code can follow by itself."""
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


def check_choice(name: str, given: str, *choices: str, why: str = "") -> None:
    """Refuse what is none of the choices; `why` says what rules the others out."""
    if given not in choices:
        words = " or ".join(f'"{choice}"' for choice in choices)
        raise ValueError(f"{name}={given!r}: choose {words}{why and f', since {why}'}")


def answer_loss(solution: Solution, target: Tensor, criterion: Criterion) -> Tensor:
    """The criterion on the weighed answer, as most mechanisms train."""
    output, mask = solution.output, solution.mask
    if _per_token(output.shape, target, mask):
        return unit_losses(output[None], target, criterion, mask).mean()
    return _element_losses(criterion, output, target).mean()


def unit_losses(
    outputs: Tensor, target: Tensor, criterion: Criterion, mask: Tensor | None = None, tokens: bool = False
) -> Tensor:
    """The criterion of each step and example `[steps, batch]`, or `[steps, batch, token]` for token targets.

    Any loss of `torch.nn` or `torch.nn.functional` will do, whatever its own reduction; so will a
    function that gives one value per element or per example: what counts is their mean over examples, so a class weight or
    an ignored target is not divided out again. Padding is weighed out of token targets. Targets
    `[batch, token]` for answers `[batch, token, classes]` are token targets; `tokens` says so of other shapes.
    """
    per_token = _per_token(outputs.shape[1:], target, mask, tokens)
    axes = 2 if per_token else 1
    targets = target.expand(len(outputs), *target.shape).flatten(0, axes)
    losses = _element_losses(criterion, outputs.flatten(0, axes), targets, steps=len(outputs))
    losses = losses.reshape(len(outputs), *target.shape[:axes], -1)
    losses = losses.squeeze(-1) if losses.shape[-1] == 1 else losses.mean(-1)
    if per_token and mask is not None:
        # the mean over all real tokens is what a caller's .mean() must give
        losses = losses * mask * (mask.numel() / mask.sum())
    return losses


def _per_token(output: torch.Size, target: Tensor, mask: Tensor | None, tokens: bool = False) -> bool:
    """Whether the target has something to say about each token of outputs of this shape, the batch first."""
    if output[0] == 0 or (mask is not None and not mask.any()):
        raise ValueError("the loss of an empty batch is not defined: skip batches without examples or real tokens")
    if target.shape[:1] != output[:1]:
        raise ValueError(f"the target is {list(target.shape)}, the output {list(output)}: their examples must agree")
    if target.ndim < 2 or target.shape[:2] != output[:2]:
        return False
    if mask is not None:
        return mask.shape == target.shape[:2]
    return tokens or (len(output) == 3 and target.ndim == 2)


def _element_losses(criterion: Criterion, outputs: Tensor, targets: Tensor, steps: int = 1) -> Tensor:
    """The criterion of each element, or of each row; the rows are those of so many steps."""
    losses = _unreduced(criterion, outputs, targets)
    if losses.shape not in (outputs.shape, targets.shape, outputs.shape[:1]):
        output, target = ([len(rows) // steps, *rows.shape[1:]] for rows in (outputs, targets))
        raise ValueError(
            f"the criterion gave {list(losses.shape)} for outputs {output} and targets {target}, but one value per element is "
            "needed (reduction='none'), and the two shapes must fit each other: did you mean target.unsqueeze(-1)?"
        )
    return losses


def _unreduced(criterion: Criterion, outputs: Tensor, targets: Tensor) -> Tensor:
    """The criterion, one value per element, whatever its own reduction."""
    if isinstance(criterion, nn.Module) and hasattr(criterion, "reduction"):
        reduction = criterion.reduction  # set and put back: the compiler cannot copy modules
        criterion.reduction = "none"  # type: ignore[assignment]
        try:
            return criterion(outputs, targets)
        finally:
            criterion.reduction = reduction
    return criterion(outputs, targets, reduction="none") if _takes_reduction(criterion) else criterion(outputs, targets)


def _takes_reduction(criterion: Criterion) -> bool:
    return "reduction" in _parameters(criterion)


# The compiler cannot look into signatures: it is to call the function and keep what it says. This is all that
# torch.compiler.assume_constant_result does, besides importing the compiler, which takes longer than importing torch.
_takes_reduction._dynamo_marked_constant = True  # type: ignore[attr-defined]


@lru_cache(maxsize=32)
def _parameters(criterion: Criterion) -> frozenset[str]:
    try:
        return frozenset(inspect.signature(criterion).parameters)
    except ValueError:  # a builtin has no signature
        return frozenset()
