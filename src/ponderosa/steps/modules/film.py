"""FiLM (Perez et al., 2018): an MLP scales and shifts what a dense layer gives, by what it was given."""

import torch
from torch import Tensor, nn

from ponderosa.steps.modules.base import COMPONENTS, Modulation, Slot, chosen


class FiLM(Modulation):
    """Every dense layer's output is scaled and shifted, by an MLP that sees the layer's input. A block starts as a plain one.

    It goes row by row, so a halted token's keys and values are the same at each step, as in a plain block.

    >>> import ponderosa as po
    >>> step = po.TransformerStep(16, 4, modulation=po.FiLM())
    >>> step(torch.randn(2, 5, 16)).shape
    torch.Size([2, 5, 16])

    Args:
        hidden: of the MLP, by default a quarter of its inputs.
        qkv, out, mlp: which dense layers: queries, keys and values; the attention's output; the feed-forward network.
    """

    def __init__(self, *, hidden: int | None = None, qkv: bool = True, out: bool = True, mlp: bool = True):
        if hidden is not None and hidden < 1:
            raise ValueError(f"hidden={hidden}: the MLP needs at least one unit")
        self.hidden, self.components = hidden, chosen(qkv=qkv, out=out, mlp=mlp)

    def dense(self, slot: Slot, inputs: int, outputs: int) -> nn.Module:
        linear = nn.Linear(inputs, outputs)
        hidden = self.hidden or max(inputs // 4, 1)
        return FilmedLinear(linear, hidden) if COMPONENTS[slot] in self.components else linear


class FilmedLinear(nn.Module):
    """A dense layer whose output is scaled by 1 + a(x) and shifted by b(x)."""

    def __init__(self, linear: nn.Linear, hidden: int):
        super().__init__()
        self.linear = linear
        self.film = nn.Sequential(nn.Linear(linear.in_features, hidden), nn.GELU(), nn.Linear(hidden, 2 * linear.out_features))
        for parameter in self.film[2].parameters():  # no scale and no shift to begin with
            nn.init.zeros_(parameter)

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        scale, shift = self.film(x).chunk(2, -1)
        return torch.addcmul(y + shift, y, scale)
