"""What a halting can tell a step that unrolls itself: when nobody needs another state."""

from typing import NamedTuple

from torch import Tensor


class Until(NamedTuple):
    """Everyone has halted once the sum of sigmoid(weight h + bias) over the steps has reached the level."""

    weight: Tensor
    bias: Tensor
    level: Tensor
    """A tensor: the compiler loses track of a number that changes."""
