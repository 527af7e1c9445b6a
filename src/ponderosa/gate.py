"""What a halting can tell a step that unrolls itself: the halting unit that will read its states."""

from typing import NamedTuple

from torch import Tensor


class Gate(NamedTuple):
    """A linear layer from each state h to one halting logit, weight h + bias."""

    weight: Tensor
    bias: Tensor
    level: Tensor | None = None
    """Once the sum of the logits' sigmoids over the steps has reached it, nobody needs another state; None: everyone needs all.
    A tensor: the compiler loses track of a number that changes."""
