"""Spearman's rank correlation."""

from torch import Tensor


def rank_correlation(one: Tensor, other: Tensor) -> float | None:
    """From -1 to 1: whether two quantities `[examples]` rise together; None where one of them does not change.

    >>> import torch
    >>> round(rank_correlation(torch.tensor([1.0, 2.0, 2.0, 9.0]), torch.tensor([1, 3, 4, 5])), 4)
    0.9487
    """
    a, b = (ranks(values) for values in (one, other))
    a, b = a - a.mean(), b - b.mean()
    norm = (a.square().sum() * b.square().sum()).sqrt()
    return float((a * b).sum() / norm) if norm > 0 else None


def ranks(values: Tensor) -> Tensor:
    """The place of each value in order `[examples]`; equal values share the mean of theirs.

    >>> import torch
    >>> ranks(torch.tensor([5, 1, 5, 7]))
    tensor([2.5000, 1.0000, 2.5000, 4.0000], dtype=torch.float64)
    """
    _, group, counts = values.unique(return_inverse=True, return_counts=True)
    last = counts.cumsum(0).double()
    return (last - (counts - 1) / 2)[group]
