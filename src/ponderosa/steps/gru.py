"""A GRU cell that sees the same input at every step."""

from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ponderosa.steps import native
from ponderosa.steps.base import Step, one_by_one
from ponderosa.steps.gru_op import Unroll
from ponderosa.steps.gru_unroll import Stop


class GRUStep(Step):
    """The GRU of the LAC and PonderNet papers' parity task: state `[batch, ..., hidden_size]`.

    The parameters are those of `torch.nn.GRUCell`, in `step.cell`. The input's projection is computed once for all
    steps, and training unrolls many steps in one differentiable operation (see `unroll`).
    """

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__()
        self.cell = nn.GRUCell(input_size, hidden_size)
        self.size = hidden_size

    def initial_state(self, x: Tensor) -> Tensor:
        return x.new_zeros(*x.shape[:-1], self.cell.hidden_size, dtype=self.cell.weight_hh.dtype)

    def prepare(self, x: Tensor) -> Tensor:
        return F.linear(x, self.cell.weight_ih, self.cell.bias_ih)

    def advance(self, context: Tensor, state: Tensor, n: int) -> Tensor:
        size = self.cell.hidden_size
        gates = F.linear(state, self.cell.weight_hh, self.cell.bias_hh)
        r, z = torch.sigmoid(context[..., : 2 * size] + gates[..., : 2 * size]).split(size, -1)
        candidate = _tanh(torch.addcmul(context[..., 2 * size :], r, gates[..., 2 * size :]))
        return candidate + z * (state - candidate)

    def unroll(self, context: Tensor, state: Tensor, first: int, steps: int, stop: Stop | None = None) -> Tensor:
        """The states of `steps` steps in a row `[steps, batch, ..., hidden_size]`, differentiable, faster than one by one.

        Now and then `stop` is shown the new states, stacked; where it answers True, no further steps are taken.
        """
        if torch.compiler.is_compiling() and not native.fits(state):
            return one_by_one(self, context, state, first, steps)  # which the compiler fuses
        shape, cell = state.shape[:-1], self.cell
        look = None if stop is None else lambda states: stop(states.unflatten(1, shape))
        inputs, device = context.flatten(0, -2).to(state.dtype), state.device.type
        # in whole precision under autocast: the kernels below want one dtype
        with torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext():
            states = Unroll.apply(inputs, state.flatten(0, -2), cell.weight_hh, cell.bias_hh, steps, look)
        return states.unflatten(1, shape)


def _tanh(x: Tensor) -> Tensor:
    """tanh(x) = 2 sigmoid(2x) - 1: on a CPU torch computes a sigmoid five times as fast as a tanh."""
    return 2 * torch.sigmoid(2 * x) - 1
