"""A GRU cell that sees the same input at every step."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ponderosa.steps.base import Step


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
        return x.new_zeros(*x.shape[:-1], self.cell.hidden_size)

    def prepare(self, x: Tensor) -> Tensor:
        return F.linear(x, self.cell.weight_ih, self.cell.bias_ih)

    def advance(self, context: Tensor, state: Tensor, n: int) -> Tensor:
        size = self.cell.hidden_size
        gates = F.linear(state, self.cell.weight_hh, self.cell.bias_hh)
        r, z = torch.sigmoid(context[..., : 2 * size] + gates[..., : 2 * size]).split(size, -1)
        candidate = torch.tanh(torch.addcmul(context[..., 2 * size :], r, gates[..., 2 * size :]))
        return torch.lerp(candidate, state, z)

    def unroll(self, context: Tensor, state: Tensor, first: int, steps: int) -> Tensor:
        """The states of `steps` steps in a row `[steps, batch, ..., hidden_size]`, differentiable, faster than one by one."""
        flat = _Unroll.apply(context.flatten(0, -2), state.flatten(0, -2), self.cell.weight_hh, self.cell.bias_hh, steps)
        return flat.unflatten(1, state.shape[:-1])


class _Unroll(torch.autograd.Function):
    """Steps of a GRU on a constant input, with the backward pass by hand: a third of autograd's operations.

    With r, z = sigmoid(i_rz + W_rz h + b_rz), g = W_n h + b_n and c = tanh(i_n + r g), the next state is
    c + z (h - c). Each step's tensors are small enough to stay in the cache, which is why they are not stacked.
    """

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, state: Tensor, weight: Tensor, bias: Tensor, steps: int) -> Tensor:
        size = state.shape[1]
        input_rz, input_n = inputs[:, : 2 * size] + bias[: 2 * size], inputs[:, 2 * size :].contiguous()
        weight_rz, weight_n, bias_n = weight[: 2 * size].t(), weight[2 * size :].t(), bias[2 * size :]
        saved, states = [state], []
        for _ in range(steps):
            r, z = torch.addmm(input_rz, state, weight_rz).sigmoid_().split(size, 1)
            g = torch.addmm(bias_n, state, weight_n)
            c = torch.addcmul(input_n, r, g).tanh_()
            state = torch.lerp(c, state, z)
            states.append(state)
            saved += [r, z, g, c, state]
        ctx.save_for_backward(weight, *saved)
        return torch.stack(states)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weight, *saved = ctx.saved_tensors
        steps, batch, size = grad.shape
        d_weight, d_inputs = torch.zeros_like(weight), grad.new_zeros(batch, 3 * size)
        d_bias_n = grad.new_zeros(batch, size)
        d_gates = grad.new_empty(batch, 3 * size)
        d_r, d_z, d_g = d_gates.split(size, 1)
        d_rz, d_inputs_rz, d_inputs_n = d_gates[:, : 2 * size], d_inputs[:, : 2 * size], d_inputs[:, 2 * size :]
        d_state = grad[-1]
        for k in range(steps - 1, -1, -1):
            before, r, z, g, c = saved[5 * k : 5 * k + 5]
            passed = d_state * z
            d_c = torch.ops.aten.tanh_backward(d_state - passed, c)
            torch.ops.aten.sigmoid_backward.grad_input(d_c * g, r, grad_input=d_r)
            torch.ops.aten.sigmoid_backward.grad_input((before - c).mul_(d_state), z, grad_input=d_z)
            torch.mul(d_c, r, out=d_g)
            d_inputs_rz += d_rz
            d_inputs_n += d_c
            d_bias_n += d_g
            d_weight.addmm_(d_gates.t(), before)
            if k:
                passed += grad[k - 1]
            d_state = passed.addmm_(d_gates, weight)
        d_bias = torch.cat([d_inputs_rz.sum(0), d_bias_n.sum(0)])
        return d_inputs, d_state, d_weight, d_bias, None
