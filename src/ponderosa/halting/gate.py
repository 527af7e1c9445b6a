"""The learned halting unit that ACT and PonderNet share: one linear layer on the state."""

from torch import nn


def gate(size: int | None, bias: float) -> nn.Linear | None:
    """A linear layer from a state of `size` to one halting logit, starting at `bias`; None while the size is unknown."""
    if size is None:
        return None
    layer = nn.Linear(size, 1)
    nn.init.constant_(layer.bias, bias)
    return layer
