"""Nested tensors: a state or an input may be a tensor, or tuples, lists and dicts of them."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

Tree = Any
"""A tensor, or a tuple, list or dict of trees, or None."""


def tree_map(fn: Callable[..., Any], tree: Tree, *others: Tree) -> Tree:
    """Apply `fn` leaf by leaf, keeping the structure.

    >>> tree_map(lambda a, b: a + b, (1, {"c": 2}), (10, {"c": 20}))
    (11, {'c': 22})
    """
    if tree is None:
        return None
    if isinstance(tree, dict):
        return {k: tree_map(fn, v, *(o[k] for o in others)) for k, v in tree.items()}
    if isinstance(tree, (tuple, list)):
        mapped = [tree_map(fn, *parts) for parts in zip(tree, *others, strict=True)]
        return type(tree)(*mapped) if hasattr(tree, "_fields") else type(tree)(mapped)
    return fn(tree, *others)


def leaves(tree: Tree) -> list[Any]:
    """The tensors of a tree, in order.

    >>> leaves(({"a": 1}, [2, None]))
    [1, 2]
    """
    found: list[Any] = []
    tree_map(found.append, tree)
    return found


def over_units(values: Tensor, leaf: Tensor) -> Tensor:
    """View per-unit `values` so that they broadcast over the trailing axes of `leaf`."""
    return values.reshape(values.shape + (1,) * (leaf.ndim - values.ndim))


def token_mean(tokens: Tensor, mask: Tensor | None) -> Tensor:
    """The mean over the tokens `[..., token, size]` of each example, padding left out: True in the mask for real tokens.

    >>> import torch
    >>> token_mean(torch.tensor([[[1.0], [3.0], [9.0]]]), torch.tensor([[True, True, False]]))
    tensor([[2.]])
    """
    if mask is None:
        return tokens.mean(-2)
    real = mask.unsqueeze(-1)
    return tokens.where(real, 0.0).sum(-2) / real.sum(-2).clamp_min(1)
