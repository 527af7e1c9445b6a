"""A GRU cell that sees the same input at every step."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ponderosa.steps.base import Step

Stop = Callable[[Tensor], bool]
aten = torch.ops.aten


class GRUStep(Step):
    """The GRU of the LAC and PonderNet papers' parity task: state `[batch, ..., hidden_size]`.

    The parameters are those of `torch.nn.GRUCell`, in `step.cell`. The input's projection is computed once for all
    steps, and training unrolls many steps in one differentiable operation (see `unroll`).
    """

    tokenwise = True

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__()
        self.cell = nn.GRUCell(input_size, hidden_size)
        self.size = hidden_size

    def initial_state(self, x: Tensor) -> Tensor:
        return x.new_zeros(*x.shape[:-1], self.cell.hidden_size, dtype=self.cell.weight_hh.dtype)

    def prepare(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
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
        shape, cell = state.shape[:-1], self.cell
        look = None if stop is None else lambda states: stop(states.unflatten(1, shape))
        inputs = context.flatten(0, -2).to(state.dtype)
        device = state.device.type
        # in whole precision under autocast: the kernels below want one dtype
        with torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext():
            inputs, device = context.flatten(0, -2).to(state.dtype), state.device.type
        # in whole precision under autocast: the kernels below want one dtype
        with torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext():
            flat = _Unroll.apply(inputs, state.flatten(0, -2), cell.weight_hh, cell.bias_hh, steps, look)
        return flat.unflatten(1, shape)


def _tanh(x: Tensor) -> Tensor:
    """tanh(x) = 2 sigmoid(2x) - 1: on a CPU torch computes a sigmoid five times as fast as a tanh."""
    return 2 * torch.sigmoid(2 * x) - 1


class _Unroll(torch.autograd.Function):
    """Steps of a GRU on a constant input, with the backward pass by hand: a third of autograd's operations.

    With r, z = sigmoid(i_rz + W_rz h + b_rz), g = W_n h + b_n and c = tanh(i_n + r g), the next state is
    h' = c + z (h - c). One step's tensors stay in the cache, which is why the loops go step by step.
    """

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, state: Tensor, weight: Tensor, bias: Tensor, steps: int, stop: Stop | None = None
    ) -> Tensor:
        size = state.shape[1]
        fixed = torch.cat([inputs[:, : 2 * size], torch.zeros_like(state)], 1).add_(bias)
        input_n, one, transposed = -2 * inputs[:, 2 * size :], state.new_ones(()), weight.t()
        gates, candidates, states = _allocate(state, steps)
        s, before = torch.empty_like(state), state
        for first, end in _looks(steps) if stop else [(0, steps)]:
            new = slice(first, end)
            for gate, rz, r, z, g, c, after in _each_step(gates[new], candidates[new], states[new]):
                torch.addmm(fixed, before, transposed, out=gate)
                rz.sigmoid_()
                torch.addcmul(input_n, r, g, value=-2, out=s).sigmoid_()
                torch.sub(one, s, alpha=2, out=c)  # tanh(a) = 1 - 2 sigmoid(-2a)
                before = torch.lerp(c, before, z, out=after)
            if stop and end < steps and stop(states[new]):
                break
        ctx.save_for_backward(weight, state, gates[:end], candidates[:end], states[:end])
        return states[:end]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weight, state, gates, candidates, states = ctx.saved_tensors
        steps, batch, size = grad.shape
        d_gates, d_c = grad.new_empty(batch, 3 * size), grad.new_empty(batch, size)
        d_r, d_z, d_g = d_gates.split(size, 1)
        d_weight, sum_gates, sum_c = torch.zeros_like(weight), torch.zeros_like(d_gates), torch.zeros_like(d_c)
        grads, befores = grad.unbind(), [state, *states.unbind()]
        each = list(zip(*_parts(gates), candidates.unbind()))
        d_state = grads[-1]
        for k in range(steps - 1, -1, -1):
            r, z, g, c = each[k]
            d_new = torch.addcmul(d_state, d_state, z, value=-1)  # (1 - z) d_state
            aten.tanh_backward.grad_input(d_new, c, grad_input=d_c)
            aten.sigmoid_backward.grad_input(d_c * g, r, grad_input=d_r)
            torch.mul(d_new, befores[k + 1] - c, out=d_z)  # z (h - c) = h' - c
            torch.mul(d_c, r, out=d_g)
            sum_gates += d_gates
            sum_c += d_c
            d_weight.addmm_(d_gates.t(), befores[k])
            d_state = torch.addcmul(grads[k - 1], d_state, z) if k else d_state * z
            if k or ctx.needs_input_grad[1]:
                d_state.addmm_(d_gates, weight)
        d_inputs = torch.cat([sum_gates[:, : 2 * size], sum_c], 1)
        return d_inputs, d_state, d_weight, sum_gates.sum(0), None, None


def _looks(steps: int) -> Iterator[tuple[int, int]]:
    """Steps between two looks at who is still alive: 3 at first, then half as many as were taken, so that looking and
    steps that nobody needs both stay a small part of the whole."""
    first, end = 0, 3
    while first < steps:
        yield first, min(end, steps)
        first, end = end, end + end // 2


def _allocate(state: Tensor, steps: int) -> tuple[Tensor, Tensor, Tensor]:
    """Room for the gates, candidates and states of all steps, in one piece: the C library gives the memory of several
    large pieces back to the system after each batch, and fetching it anew costs as much as the arithmetic."""
    batch, size = state.shape
    n = steps * batch * size
    gates, candidates, states = state.new_empty(5 * n).split([3 * n, n, n])
    return gates.view(steps, batch, 3 * size), candidates.view(steps, batch, size), states.view(steps, batch, size)


def _each_step(gates: Tensor, candidates: Tensor, states: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Where a step puts its gates, r and z together, r, z, g, the candidate and the state."""
    rz = gates[..., : 2 * states.shape[-1]]
    return zip(gates.unbind(), rz.unbind(), *_parts(gates), candidates.unbind(), states.unbind())


def _parts(gates: Tensor) -> list[tuple[Tensor, ...]]:
    """r, z and g of each step."""
    return [part.unbind() for part in gates.split(gates.shape[-1] // 3, -1)]
