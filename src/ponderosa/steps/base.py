"""The contract of a step: the input, the state and the step's number in, the next state out."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ponderosa.tree import Tree, leaves, tree_map


class Step(nn.Module, ABC):
    """What is repeated: tied (the same parameters at every step), or a stack (step n has its own).

    Implement `advance` and `initial_state`; the other methods have defaults that fit most steps.
    """

    size: int | None = None
    """The last axis of the tensor that is read, where known: learned haltings take it from here."""
    max_steps: int | None = None
    """The number of steps there are, for a stack of layers; None where there is no such limit."""
    tied: bool = True
    """Whether every step uses all parameters: if not, data-parallel training looks for those that no unit reached."""
    tokenwise: bool = False
    """Whether tokens never see each other, so that an engine may run any rows `[rows, ...]` of them on their own."""
    once_differentiable: bool = False
    """Whether training unrolls it with gradients by hand, without gradients of their own: then the engine's may be, too."""

    @abstractmethod
    def initial_state(self, x: Tree) -> Tree:
        """h_0 for this input."""

    @abstractmethod
    def advance(self, context: Tree, state: Tree, n: Any) -> Tree:
        """The state after step `n` (from 1), given what `prepare` made of the input.

        `n` is a number; for tied steps in a stream, whose batches mix depths, one per example `[batch]`.
        """

    def advance_by(self, context: Tree, state: Tree, first: Any, steps: int) -> Tree:
        """The state after `steps` steps in a row, from step `first` on: one by one, if a step knows no faster way."""
        for k in range(steps):
            state = self.advance(context, state, first + k if k else first)
        return state

    def advance_through(self, context: Tree, state: Tree, first: int, steps: int) -> Tree:
        """The states of `steps` steps in a row, one at least, stacked in front of every tensor of the state: for training."""
        states = []
        for n in range(first, first + steps):
            state = self.advance(context, state, n)
            states.append(state)
        return tree_map(lambda *s: torch.stack(s), *states)

    def prepare(self, x: Tree, mask: Tensor | None = None) -> Tree:
        """What does not change from step to step, computed once: by default the input itself.

        Its tensors keep the batch as their first axis, so that an engine can drop examples. `mask` `[batch, token]` is True
        for what is not padding: a step whose tokens see each other must leave padding out.
        """
        return x

    def read(self, state: Tree) -> Tensor:
        """The tensor of the state that a halting and the head see: by default the first."""
        return leaves(state)[0]

    def forward(self, x: Tree, state: Tree | None = None, n: int = 1) -> Tree:
        """One step by hand."""
        return self.advance(self.prepare(x), self.initial_state(x) if state is None else state, n)


class CellStep(Step):
    """Any module `(x, state) -> state` as a step. A third argument that must be given, or is named n, gets the step's number.

    Cells of `torch.nn` (`LSTMCell`, `GRUCell`, `RNNCell`) start from zeros. For others say how: a function from the
    input to h_0, or the state itself with every call, `net(x, state=...)`.

    >>> import torch
    >>> step = CellStep(nn.LSTMCell(4, 8))
    >>> h, c = step(torch.ones(2, 4))
    >>> h.shape
    torch.Size([2, 8])
    """

    def __init__(
        self, module: nn.Module, *, initial_state: Callable[[Tree], Tree] | None = None,
        read: Callable[[Tree], Tensor] | None = None, size: int | None = None,
    ):  # fmt: skip
        super().__init__()
        self.module = module
        self._initial_state, self._read = initial_state, read
        self.size = size if size is not None else getattr(module, "hidden_size", None)
        self._takes_n = _takes_number(module.forward)
        self.tied = not self._takes_n

    def initial_state(self, x: Tree) -> Tree:
        if self._initial_state is not None:
            return self._initial_state(x)
        if isinstance(self.module, nn.RNNCellBase):
            h = x.new_zeros(*x.shape[:-1], self.module.hidden_size)
            return (h, h) if isinstance(self.module, nn.LSTMCell) else h
        raise ValueError(
            f"{type(self.module).__name__} does not say where it starts: call net(x, state=...), or wrap it as "
            "ponderosa.CellStep(module, initial_state=lambda x: ...)"
        )

    def advance(self, context: Tree, state: Tree, n: int) -> Tree:
        return self.module(context, state, n) if self._takes_n else self.module(context, state)

    def read(self, state: Tree) -> Tensor:
        return super().read(state) if self._read is None else self._read(state)


def as_step(module: nn.Module) -> Step:
    """The module itself if it is a step, else wrapped as one."""
    if isinstance(module, Step):
        return module
    if not isinstance(module, nn.Module):
        raise TypeError(f"a step is a torch.nn.Module (x, state) -> state, not {type(module).__name__}: wrap it in one")
    return CellStep(module)


def _takes_number(function: Callable[..., object]) -> bool:
    """Whether a module's call has a third argument that must be given, or is named n: the step's number."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    third = [p for p in inspect.signature(function).parameters.values() if p.kind in kinds][2:3]
    return any(p.name == "n" or p.default is inspect.Parameter.empty for p in third)


__all__ = ["CellStep", "Step", "as_step"]
