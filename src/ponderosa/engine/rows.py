"""Examples as rows of many tensors: chosen, put together, and what they leave with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ponderosa.host import Array, tensor
from ponderosa.tree import Tree, leaves, tree_map


@dataclass
class Parts:
    """What examples leave with: the weighed state, the answer if it is their last step's own, the steps, the weights."""

    rows: Array
    state: Tree
    output: Tensor | None
    steps: Array
    weights: Tensor | None

    def part(self, places: Array | slice) -> "Parts":
        """Of some of them."""
        return Parts(*select((self.rows, self.state, self.output, self.steps, self.weights), places))


def check_rows(tree: Tree, examples: int) -> None:
    """A first axis that only happens to have the batch's length must not pass for it later."""
    for leaf in leaves(tree):
        if isinstance(leaf, (Tensor, np.ndarray)) and leaf.ndim and len(leaf) != examples:
            raise ValueError(
                f"a tensor of the step's context or of the halting's memory is {list(leaf.shape)}: its first axis must be "
                f"the batch, here {examples}, so that examples can leave; keep what all examples share in the module"
            )


def going(depths: Array) -> list[int]:
    """How many take step 1, 2, ... of those who stand deepest first.

    >>> going(np.array([4, 2, 2]))
    [3, 3, 1, 1]
    """
    most, least = (int(depths[0]), int(depths[-1])) if len(depths) else (0, 0)
    fewer = np.searchsorted(-depths, -np.arange(least + 1, most + 1), side="right").tolist() if most > least else []
    return [len(depths)] * least + fewer


def select(tree: Tree, places: Array | slice) -> Tree:
    """The examples at these places, of every tensor and array; those of a slice are views."""
    index: Tensor | None = None

    def of(leaf: Any) -> Any:
        nonlocal index
        if not isinstance(leaf, (Tensor, np.ndarray)) or not leaf.ndim:
            return leaf
        if isinstance(places, slice) or isinstance(leaf, np.ndarray):
            return leaf[places]
        if index is None or index.device != leaf.device:
            index = tensor(places, leaf)
        return leaf.index_select(0, index)

    return tree_map(of, tree)


def concatenate(one: Tree, other: Tree, examples: int, others: int) -> Tree:
    """Both together."""
    return _both(_cat, one, other, examples, others)


def replace(one: Tree, other: Tree, places: Array, examples: int) -> Tree:
    """One's examples, with the other's at these places."""
    index: Tensor | None = None

    def put(leaf: Any, new: Any) -> Any:
        nonlocal index
        if not isinstance(leaf, (Tensor, np.ndarray)) or not leaf.ndim:
            return leaf
        if isinstance(leaf, np.ndarray):
            leaf = leaf.astype(np.result_type(leaf, new))
            leaf[places] = new
            return leaf
        if leaf.dtype != new.dtype:
            kind = torch.promote_types(leaf.dtype, new.dtype)
            leaf, new = leaf.to(kind), new.to(kind)
        if index is None or index.device != leaf.device:
            index = tensor(places, leaf)
        return leaf.index_copy(0, index, new)

    return _both(put, one, other, examples, len(places))


def _both(fn: Callable[[Any, Any], Any], one: Tree, other: Tree, examples: int, others: int) -> Tree:
    """Leaf by leaf; what only one side has noted yet (a first answer, known keys and values) is zero on the other."""
    if isinstance(one, dict):
        return {key: _both(fn, one.get(key), other.get(key), examples, others) for key in {**one, **other}}
    one = _nothing(other, examples) if one is None else one
    other = _nothing(one, others) if other is None else other
    return tree_map(fn, one, other)


def _nothing(like: Any, examples: int) -> Any:
    if isinstance(like, Tensor):
        return like.new_zeros(examples, *like.shape[1:])
    return np.zeros((examples, *like.shape[1:]), like.dtype) if isinstance(like, np.ndarray) else None


def _cat(*parts: Any) -> Any:
    if not isinstance(parts[0], (Tensor, np.ndarray)) or not parts[0].ndim:
        return parts[0]
    return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else torch.cat(parts)


def join(parts: Sequence[Parts]) -> Parts:
    """The parts of all examples, in the order of their rows."""
    whole = in_a_row(parts)  # where there is one, all ended together, in the order in which they came
    return whole if len(parts) == 1 else whole.part(whole.rows.argsort())


def in_a_row(parts: Sequence[Parts]) -> Parts:
    """The parts of all examples, one after the other."""
    if len(parts) == 1:
        return parts[0]
    return Parts(*tree_map(_cat, *((p.rows, p.state, p.output, p.steps, p.weights) for p in parts)))
