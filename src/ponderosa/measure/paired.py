"""Two networks on the same examples: by how much their scores differ, and how sure that is."""

from typing import NamedTuple

from torch import Tensor


class Difference(NamedTuple):
    """The mean difference of two scores, and the interval that holds it with 95 % confidence."""

    mean: float
    low: float
    high: float

    def points(self) -> str:
        """In percentage points: "+0.31 [-0.12, +0.74]"."""
        mean, low, high = (f"{100 * value:+.2f}" for value in self)
        return f"{mean} [{low}, {high}]"


def paired_difference(ours: Tensor, theirs: Tensor) -> Difference:
    """Of scores `[seed, example]`: each example's difference, averaged over seeds, is one observation.

    The interval says how the difference would vary with other test examples, for networks trained like these.

    >>> import torch
    >>> paired_difference(torch.tensor([[1.0, 1.0, 0.0, 1.0]]), torch.tensor([[1.0, 0.0, 0.0, 1.0]])).points()
    '+25.00 [-24.00, +74.00]'
    """
    if ours.shape != theirs.shape or ours.ndim != 2:
        raise ValueError(f"the scores are {list(ours.shape)} and {list(theirs.shape)}: [seed, example], the same of both")
    each = (ours - theirs).double().mean(0)
    mean, half = float(each.mean()), 1.96 * float(each.std()) / len(each) ** 0.5
    return Difference(mean, mean - half, mean + half)
