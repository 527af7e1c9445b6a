"""What a step that unrolls itself may read of its states while it has them at hand: linear layers on the state."""

from typing import NamedTuple

from torch import Tensor, nn


class Readout(NamedTuple):
    """A linear layer on each state h: weight h + bias."""

    weight: Tensor
    bias: Tensor


class Gate(NamedTuple):
    """The halting unit: a linear layer to one halting logit."""

    weight: Tensor
    bias: Tensor
    level: Tensor | None = None
    """Once the sum of the logits' sigmoids over the steps has reached it, nobody needs another state; None: everyone needs all.
    A tensor: the compiler loses track of a number that changes."""


def as_readout(layer: nn.Module | None) -> Readout | None:
    """The layer as a step may read with it by itself; None where it is more than its weights say, or something else."""
    if type(layer) is not nn.Linear or layer.bias is None or _hooked(layer):
        return None
    return Readout(layer.weight, layer.bias)


def _hooked(layer: nn.Module) -> bool:
    hooks = layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks, layer._backward_pre_hooks
    return any(hooks)
