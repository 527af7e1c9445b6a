"""`Ponder`: a step, a halting and a head made one network."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from ponderosa.engine import compact, unroll
from ponderosa.finite import not_finite
from ponderosa.halting.base import Halting, Units
from ponderosa.halting.losses import Criterion
from ponderosa.solution import Solution
from ponderosa.steps.base import as_step
from ponderosa.tree import Tree, leaves

ENGINES = {"unroll": unroll, "compact": compact}


class Ponder(nn.Module):
    """Repeats a step until its halting says stop, and answers with the head.

    What has halted is no longer computed: in evaluation always, in training where the halting is hard (LAC, planned depth).
    Where every step counts (PonderNet) or weighs in (ACT), training runs the masked, differentiable unroll. All engines
    give the same answer.

    Args:
        step: any module `(x, state) -> state`, or a `Step`.
        halting: the mechanism.
        head: from the state to the answer; a `ModuleList` has one for each step. Exits over a stack of layers get a
            copy of the head for every layer.
        max_steps: the limit; a stack's number of layers if not given.
        encoder: applied to the input once, before the first step (a CNN's features, an embedding).
        check_finite: whether NaN or infinite numbers in the input or the answer raise an error.

    >>> import ponderosa as po
    >>> net = po.Ponder(po.GRUStep(16, 32), po.LAC(alpha=1.0), head=nn.Linear(32, 1), max_steps=10)
    >>> solution = net(torch.ones(4, 16))
    >>> solution.output.shape, solution.steps.shape
    (torch.Size([4, 1]), torch.Size([4]))
    """

    def __init__(
        self, step: nn.Module, halting: Halting, *, head: nn.Module | None = None, max_steps: int | None = None,
        encoder: nn.Module | None = None, check_finite: bool = True,
    ):  # fmt: skip
        super().__init__()
        if not isinstance(halting, Halting):
            raise TypeError(f"halting is {type(halting).__name__}: it must be a ponderosa Halting, as po.LAC()")
        self.step = as_step(step)
        self.halting = halting
        self.max_steps = max_steps
        self._made_for = self.max_steps
        self.head = self._heads(head)
        self.encoder = encoder
        self.check_finite = check_finite
        halting.build(self.step.size)
        for part in halting.modules():
            if getattr(part, "gate", 0) is None:
                raise ValueError(
                    f"{type(part).__name__} reads the state with a learned layer, but {type(step).__name__} does not say "
                    f"how large its state is: write {type(part).__name__}(size=...)"
                )

    @property
    def max_steps(self) -> int:
        """The limit. It may be set to another: to think longer than in training, where a step is repeated, or shorter."""
        return self._max_steps

    @max_steps.setter
    def max_steps(self, given: int | None) -> None:
        self._max_steps = self._limit(given)

    @property
    def full_depth(self) -> int:
        """The limit it was made with, or a higher one set since: what a lower one saves is held against it."""
        return max(self._made_for, self.max_steps)

    def forward(
        self, x: Tree, *, state: Tree | None = None, mask: Tensor | None = None, key: Tensor | None = None,
        depth: Tensor | None = None, max_steps: int | None = None, engine: Literal["unroll", "compact"] | None = None,
    ) -> Solution:  # fmt: skip
        """Answer a batch.

        Args:
            x: the input, a tensor or nested tuples and dicts of tensors, the batch first.
            state: h_0, if not the step's own.
            mask: True for what is not padding `[batch, token]`.
            key: a whole number that names each example `[batch]`, for random draws; its content, if not given.
            depth: the depth of each unit, for `PlannedDepth`.
            max_steps: another limit for this call: think longer, or shorter.
            engine: "unroll" or "compact", if not the one that fits the mode.
        """
        limit = self.max_steps if max_steps is None else self._limit(max_steps)
        run = self._engine(engine)
        encoded, state, units = self.begin(x, state=state, mask=mask, key=key, depth=depth)
        solution = run(self.step, self.halting, self.head, encoded, state, units, limit)
        self._check("answer", solution.output)
        return solution

    def begin(
        self, x: Tree, *, state: Tree | None = None, mask: Tensor | None = None, key: Tensor | None = None,
        depth: Tensor | None = None,
    ) -> tuple[Tree, Tree, Units]:  # fmt: skip
        """What an engine starts from: the encoded input, h_0 and the units, all checked."""
        self._check("input", x)
        self._check("state", state)
        encoded = x if self.encoder is None else self.encoder(x)
        state = self.step.initial_state(encoded) if state is None else state
        return encoded, state, self._units(x, state, mask, key, depth)

    def loss(self, solution: Solution, target: Tensor, criterion: Criterion) -> Tensor:
        """The training loss: the criterion as this halting weighs it, its own terms included."""
        return self.halting.loss(solution, target, criterion)

    def _engine(self, name: str | None) -> Callable[..., Solution]:
        skips = self.halting.hard and not (self.training and self.halting.trains_every_step)
        if name is None:  # a step with an unroll of its own trains faster that way, and the compiler wants fixed shapes
            fused = self.training and hasattr(self.step, "unroll")
            name = "unroll" if torch.compiler.is_compiling() or fused or (self.training and not skips) else "compact"
        if name not in ENGINES:
            raise ValueError(f"engine={name!r}: choose one of {sorted(ENGINES)}")
        if name == "compact" and self.training and not skips:
            raise ValueError(
                f'engine="compact" skips halted work, but {type(self.halting).__name__} trains on every step: '
                "call net.eval() first, or leave the engine out"
            )
        return ENGINES[name]

    def _limit(self, max_steps: int | None) -> int:
        most = self.step.max_steps
        limit = most if max_steps is None else max_steps
        if limit is None:
            raise ValueError("say how many steps may be taken at most: Ponder(..., max_steps=10)")
        if limit < 1:
            raise ValueError(f"max_steps={limit}: at least one step is needed")
        if most is not None and limit > most:
            raise ValueError(f"max_steps={limit}, but the stack has only {most} layers")
        heads = getattr(self, "head", None)
        if isinstance(heads, nn.ModuleList) and limit > len(heads):
            raise ValueError(f"max_steps={limit}, but there are heads for {len(heads)} steps only")
        return limit

    def _heads(self, head: nn.Module | None) -> nn.Module | None:
        if isinstance(head, nn.ModuleList):
            if len(head) < self.max_steps or len({id(h) for h in head}) < len(head):
                raise ValueError(f"a list of heads needs one object of its own for each of the {self.max_steps} steps")
            return head
        if self.halting.reads_output and head is None:
            raise ValueError(f"{type(self.halting).__name__} judges the answer of every step: give Ponder a head")
        if head is not None and self.halting.reads_output and self.step.max_steps is not None:
            return nn.ModuleList(copy.deepcopy(head) for _ in range(self.max_steps))
        return head

    def _units(self, x: Tree, state: Tree, mask: Tensor | None, key: Tensor | None, depth: Tensor | None) -> Units:
        read = self.step.read(state)
        batch = read.shape[0] if read.ndim else 0
        for what, tree in (("input", x), ("state", state), ("mask", mask), ("key", key), ("depth", depth)):
            for leaf in () if tree is None else leaves(tree):
                if leaf.shape[:1] != (batch,) or read.ndim < 1:
                    raise ValueError(f"the {what} is {list(leaf.shape)}, but the state read is {list(read.shape)}: "
                                     "the first axis of all must be the batch")  # fmt: skip
        shape = read.shape[:1]
        if self.halting.unit == "token":
            if read.ndim != 3 or any(leaf.shape[:2] != read.shape[:2] for leaf in leaves(state)):
                raise ValueError(
                    f'unit="token" needs a state [batch, token, size], but it is {[list(s.shape) for s in leaves(state)]}'
                )
            shape = read.shape[:2]
        self._check_mask(mask, read)
        if depth is not None and depth.shape != shape:
            raise ValueError(f"the depths are {list(depth.shape)}, but the units ({self.halting.unit}s) are {list(shape)}")
        if key is not None and (key.is_floating_point() or key.ndim != 1):
            raise ValueError(f"the keys are {key.dtype} {list(key.shape)}: one whole number per example [batch] is needed")
        return Units(shape, x, mask, None if key is None else key.long(), depth)

    @staticmethod
    def _check_mask(mask: Tensor | None, read: Tensor) -> None:
        if mask is None:
            return
        if mask.dtype != torch.bool or mask.ndim != 2:
            raise ValueError(
                f"the mask is {mask.dtype} {list(mask.shape)}: bool [batch, token] is needed, True for real tokens"
            )
        if mask.shape != read.shape[:2] and read.ndim > 2:
            raise ValueError(f"the mask is {list(mask.shape)}, but the state has [batch, token] = {list(read.shape[:2])}")

    def _check(self, what: str, tree: Tree) -> None:
        if not self.check_finite or torch.compiler.is_compiling():
            return
        for leaf in leaves(tree):
            if rows := not_finite(leaf):
                raise FloatingPointError(
                    f"the {what} has NaN or infinite numbers in examples {rows[:5]}{'...' if len(rows) > 5 else ''}: "
                    "look at the data, the learning rate and the clipping (check_finite=False lets them through)"
                )
