"""`gru_unroll` without the compiler: in place, and so in fewer operations and less memory."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ponderosa.steps import gru_native as native

Stop = Callable[[Tensor], bool]
aten = torch.ops.aten
ONE = torch.ones((), device="cpu")  # a scalar goes with tensors of all devices and dtypes


class UnrollInPlace(torch.autograd.Function):
    """See `gru_unroll.Unroll`; of fewer steps, where `stop` says so.

    One step's tensors stay in the cache, which is why the loops go step by step.
    """

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, state: Tensor, weight: Tensor, bias: Tensor, steps: int, stop: Stop | None = None
    ) -> Tensor:
        size, before, transposed = state.shape[1], state.contiguous(), weight.t()
        fixed = torch.cat([inputs[:, : 2 * size], torch.zeros_like(state)], 1) + bias
        input_n = (-2 * inputs[:, 2 * size :]).contiguous()  # as C needs all it is given
        # one piece: the C library gives the memory of several large ones back to the system after each batch, and fetching
        # it anew costs as much as the arithmetic
        room = state.new_empty(5 * steps, *state.shape)
        parts = _split(room)
        one_pass = native.activate if native.fits(state) else activate
        for first, end in _looks(steps) if stop else [(0, steps)]:
            for gates, candidate, after in zip(*(part[first:end].unbind() for part in parts)):
                torch.addmm(fixed, before, transposed, out=gates)
                one_pass(gates, input_n, before, candidate, after)
                before = after
            if stop and end < steps and stop(parts[-1][first:end]):
                break
        ctx.save_for_backward(weight, state, room)
        return parts[-1][:end]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weight, state, room = ctx.saved_tensors
        steps, batch, size = grad.shape
        gates, candidates, states = (part[:steps].unbind() for part in _split(room))
        befores, grads = [state, *states], [state.new_zeros(batch, size), *grad.contiguous().unbind()]
        d_state, d_gates, d_weight = grads[-1].clone(), grad.new_empty(batch, 3 * size), torch.zeros_like(weight)
        sum_gates, sum_c, transposed = torch.zeros_like(d_gates), torch.zeros_like(d_state), d_gates.t()
        one_pass = native.differentiate if native.fits(state) else differentiate
        for k in range(steps - 1, -1, -1):
            one_pass(gates[k], candidates[k], states[k], grads[k], d_state, d_gates, sum_gates, sum_c)
            d_weight.addmm_(transposed, befores[k])
            if k or ctx.needs_input_grad[1]:
                d_state.addmm_(d_gates, weight)
        d_inputs = torch.cat([sum_gates[:, : 2 * size], sum_c], 1)
        return d_inputs, d_state, d_weight, sum_gates.sum(0), None, None


def activate(gates: Tensor, input_n: Tensor, before: Tensor, candidate: Tensor, after: Tensor) -> None:
    """In `gates` r, z and g from their sums, then the candidate and the next state; `input_n` is -2 i_n."""
    r, z, g = gates.split(before.shape[1], 1)
    gates[:, : 2 * before.shape[1]].sigmoid_()
    # tanh(a) = 1 - 2 sigmoid(-2a): see `gru_unroll.gru`
    torch.addcmul(input_n, r, g, value=-2, out=candidate).sigmoid_()
    torch.sub(ONE, candidate, alpha=2, out=candidate)
    torch.lerp(candidate, before, z, out=after)


def differentiate(
    gates: Tensor, candidate: Tensor, after: Tensor, grad: Tensor, d_state: Tensor, d_gates: Tensor, sum_gates: Tensor,
    sum_c: Tensor,
) -> None:  # fmt: skip
    """In `d_gates` the gradients of the sums of r, z and g; in `sum_gates` and `sum_c` their totals over the steps and the
    candidate's; in `d_state` the earlier state's, as far as it does not go through the weight: from `grad` and directly."""
    size = candidate.shape[1]
    (r, z, g), (d_r, d_z, d_g) = gates.split(size, 1), d_gates.split(size, 1)
    d_new = torch.addcmul(d_state, d_state, z, value=-1)  # (1 - z) d_state
    d_c = aten.tanh_backward(d_new, candidate)
    aten.sigmoid_backward.grad_input(d_c * g, r, grad_input=d_r)
    torch.mul(d_new, after - candidate, out=d_z)  # z (h - c) = h' - c
    torch.mul(d_c, r, out=d_g)
    sum_gates += d_gates
    sum_c += d_c
    torch.addcmul(grad, d_state, z, out=d_state)


def _split(room: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gates `[steps, batch, 3 size]`, the candidates and the states `[steps, batch, size]`."""
    steps, (batch, size) = len(room) // 5, room.shape[1:]
    gates, candidates, states = room.split([3 * steps, steps, steps])
    return gates.view(steps, batch, 3 * size), candidates, states


def _looks(steps: int) -> Iterator[tuple[int, int]]:
    """Steps between two looks at who is still alive: 3 at first, then half as many as were taken, so that looking and
    steps that nobody needs both stay a small part of the whole."""
    first, end = 0, 3
    while first < steps:
        yield first, min(end, steps)
        first, end = end, end + end // 2
