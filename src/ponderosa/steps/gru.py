"""A GRU cell that sees the same input at every step."""

from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ponderosa.gate import Gate
from ponderosa.native import watched
from ponderosa.steps.base import Step
from ponderosa.steps.gru_native import FEW, NativeUnroll, advance_few, fits
from ponderosa.steps.gru_unroll import Stop, Unroll, gru


class GRUStep(Step):
    """The GRU of the LAC and PonderNet papers' parity task: state `[batch, ..., hidden_size]`.

    The parameters are those of `torch.nn.GRUCell`, in `step.cell`. The input's projection is computed once for all
    steps, and training unrolls many steps in one differentiable operation (see `unroll`).
    """

    tokenwise = True
    once_differentiable = True

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__()
        self.cell = nn.GRUCell(input_size, hidden_size)
        self.size = hidden_size

    def initial_state(self, x: Tensor) -> Tensor:
        return x.new_zeros(*x.shape[:-1], self.cell.hidden_size, dtype=self.cell.weight_hh.dtype)

    def prepare(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return F.linear(x, self.cell.weight_ih, self.cell.bias_ih)

    def advance(self, context: Tensor, state: Tensor, n: int) -> Tensor:
        return gru(context, F.linear(state, self.cell.weight_hh, self.cell.bias_hh), state)[-1]

    def advance_by(self, context: Tensor, state: Tensor, first: int | Tensor, steps: int) -> Tensor:
        if not steps or not self._in_c(context, state):
            return super().advance_by(context, state, first, steps)
        weight, bias = self.cell.weight_hh, self.cell.bias_hh
        return advance_few(context.flatten(0, -2), state.flatten(0, -2), weight, bias, steps).view_as(state)

    def _in_c(self, context: Tensor, state: Tensor) -> bool:
        """Whether C takes steps in a row: of few rows, each with an input of its own, where nobody wants to know how."""
        if type(self).advance is not GRUStep.advance or "advance" in vars(self) or torch.is_grad_enabled() or watched():
            return False
        alike = context.dtype == state.dtype and context.shape[:-1] == state.shape[:-1]
        few = alike and 0 < state.shape[:-1].numel() <= FEW
        return few and not torch.is_autocast_enabled(state.device.type) and fits(state, self.cell.weight_hh)

    def unroll(
        self, context: Tensor, state: Tensor, first: int, steps: int, stop: Stop | None = None, gate: Gate | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        """The states of `steps` steps in a row `[steps, batch, ..., hidden_size]`, differentiable, faster than one by one.

        Now and then `stop` is shown the new states, stacked, and says after how many steps again; 0 ends it. With a `gate`,
        also what it reads of the states `[steps, batch, ...]`; where C does the work, its level ends it without a look.
        """
        shape, cell = state.shape[:-1], self.cell
        look = None if stop is None else lambda states: stop(states.unflatten(1, shape))
        inputs, device = context.flatten(0, -2).to(state.dtype), state.device.type
        # in whole precision under autocast: the kernels below want one dtype
        with torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext():
            arguments = inputs, state.flatten(0, -2), cell.weight_hh, cell.bias_hh, steps, look
            if fits(state, cell.weight_hh):
                states, logits = NativeUnroll.apply(*arguments, *(gate or (None, None, None)))
            else:
                states = Unroll.apply(*arguments)
                logits = None if gate is None else F.linear(states, gate.weight, gate.bias).squeeze(-1)
        if len(shape) > 1:
            states, logits = (None if each is None else each.unflatten(1, shape) for each in (states, logits))
        return states if gate is None else (states, logits)
