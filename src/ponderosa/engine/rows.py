"""Examples as rows of many tensors: chosen, put together, and what they leave with."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ponderosa.tree import Tree, leaves, tree_map


@dataclass
class Parts:
    """What examples leave with: the weighed state, the answer if it is their last step's own, the steps, the weights."""

    rows: Tensor
    state: Tree
    output: Tensor | None
    steps: Tensor
    weights: Tensor | None


def check_rows(tree: Tree, examples: int) -> None:
    """A first axis that only happens to have the batch's length must not pass for it later."""
    for leaf in leaves(tree):
        if isinstance(leaf, Tensor) and leaf.ndim and len(leaf) != examples:
            raise ValueError(
                f"a tensor of the step's context or of the halting's memory is {list(leaf.shape)}: its first axis must be "
                f"the batch, here {examples}, so that examples can leave; keep what all examples share in the module"
            )


def select(tree: Tree, chosen: Tensor) -> Tree:
    """The chosen examples of every tensor."""
    return tree_map(lambda leaf: leaf.index_select(0, chosen) if isinstance(leaf, Tensor) and leaf.ndim else leaf, tree)


def concatenate(one: Tree, other: Tree, examples: int, others: int) -> Tree:
    """Both together; what only one side has noted yet (a first answer, known keys and values) is zero on the other."""
    if isinstance(one, dict):
        return {key: concatenate(one.get(key), other.get(key), examples, others) for key in {**one, **other}}
    if one is None and isinstance(other, Tensor):
        one = other.new_zeros(examples, *other.shape[1:])
    if other is None and isinstance(one, Tensor):
        other = one.new_zeros(others, *one.shape[1:])
    return tree_map(_cat, one, other)


def _cat(*parts: Any) -> Any:
    return torch.cat(parts) if isinstance(parts[0], Tensor) and parts[0].ndim else parts[0]


def join(parts: Sequence[Parts]) -> Parts:
    """The parts of all examples, in the order of their rows."""
    fields = [(p.rows, p.state, p.output, p.steps, p.weights) for p in parts]
    rows, *rest = tree_map(_cat, *fields) if len(fields) > 1 else fields[0]
    if len(fields) == 1:  # all ended together, in the order in which they came
        return Parts(rows, *rest)
    order = rows.argsort()
    return Parts(*select((rows, *rest), order))
