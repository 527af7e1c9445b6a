"""The learned halting unit that ACT and PonderNet share: one linear layer on the state."""

from torch import Tensor, nn

from ponderosa.gate import Gate
from ponderosa.halting.base import Unit
from ponderosa.hooks import hooked
from ponderosa.tree import token_mean


def gate(size: int | None, bias: float) -> nn.Linear | None:
    """A linear layer from a state of `size` to one halting logit, starting at `bias`; None while the size is unknown."""
    if size is None:
        return None
    layer = nn.Linear(size, 1)
    nn.init.constant_(layer.bias, bias)
    return layer


def as_linear(layer: nn.Module | None, level: float | None = None) -> Gate | None:
    """The layer as a step may read it by itself; None where it is more than its weights say, or something else."""
    if type(layer) is not nn.Linear or layer.bias is None or "forward" in vars(layer) or hooked(layer):
        return None
    return Gate(layer.weight, layer.bias, None if level is None else layer.bias.new_full((), level))


def read_units(state: Tensor, unit: Unit, mask: Tensor | None, lead: int = 1) -> Tensor:
    """The features a learned mechanism decides on: `[batch, size]`, or `[batch, token, size]` per token.

    An example that consists of tokens is their mean, padding left out. `lead` counts the axes up to
    the batch's: 2 where the steps are stacked in front.
    """
    if unit == "token" or state.ndim == lead + 1:
        return state
    if mask is None:
        return state.flatten(lead, -2).mean(-2)
    tokens = state.flatten(lead + 1, -2).mean(-2) if state.ndim > lead + 2 else state
    return token_mean(tokens, mask)
