"""Many steps of a GRU on a constant input in one operation, with the backward pass by hand: a third of autograd's work.

With r, z = sigmoid(i_rz + W_rz h + b_rz), g = W_n h + b_n and c = tanh(i_n + r g), the next state is
h' = c + z (h - c). One step's tensors stay in the cache, which is why the loops go step by step.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from ponderosa.steps import native

Stop = Callable[[Tensor], bool]
aten = torch.ops.aten


def run(
    inputs: Tensor, state: Tensor, weight: Tensor, bias: Tensor, steps: int, stop: Stop | None = None
) -> tuple[Tensor, int]:
    """What all steps leave behind (see `split`), and how many were taken."""
    size = state.shape[1]
    fixed = torch.cat([inputs[:, : 2 * size], torch.zeros_like(state)], 1).add_(bias)
    input_n, transposed, before = -2 * inputs[:, 2 * size :], weight.t(), state.contiguous()
    # one piece: the C library gives the memory of several large ones back to the system after each batch, and fetching it
    # anew costs as much as the arithmetic
    room = state.new_empty(5 * steps, *state.shape)
    parts = split(room)
    one_pass = native.activate if native.fits(state) else activate
    for first, end in _looks(steps) if stop else [(0, steps)]:
        for gates, candidate, after in zip(*(part[first:end].unbind() for part in parts)):
            torch.addmm(fixed, before, transposed, out=gates)
            one_pass(gates, input_n, before, candidate, after)
            before = after
        if stop and end < steps and stop(parts[-1][first:end]):
            break
    return room, end


def run_back(
    grad: Tensor, weight: Tensor, state: Tensor, room: Tensor, state_too: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of the inputs, the state (if asked for), the weight and the bias."""
    steps, batch, size = grad.shape
    gates, candidates, states = (part[:steps].unbind() for part in split(room))
    befores, grads = [state, *states], [torch.zeros_like(state), *grad.contiguous().unbind()]
    d_state, d_gates, sums = grads[-1].clone(), grad.new_empty(batch, 3 * size), grad.new_zeros(batch, 4 * size)
    d_weight, transposed = torch.zeros_like(weight), d_gates.t()
    one_pass = native.differentiate if native.fits(state) else differentiate
    for k in range(steps - 1, -1, -1):
        one_pass(gates[k], candidates[k], states[k], grads[k], d_state, d_gates, sums)
        d_weight.addmm_(transposed, befores[k])
        if k or state_too:
            d_state.addmm_(d_gates, weight)
    d_inputs = torch.cat([sums[:, : 2 * size], sums[:, 3 * size :]], 1)
    return d_inputs, d_state, d_weight, sums[:, : 3 * size].sum(0)


def activate(gates: Tensor, input_n: Tensor, before: Tensor, candidate: Tensor, after: Tensor) -> None:
    """In place: r, z and g from their sums, the candidate and the next state; `input_n` is -2 i_n."""
    r, z, g = gates.split(before.shape[1], 1)
    r.sigmoid_()
    z.sigmoid_()
    torch.addcmul(input_n, r, g, value=-2, out=candidate).sigmoid_().mul_(-2).add_(1)  # tanh(a) = 1 - 2 sigmoid(-2a)
    torch.lerp(candidate, before, z, out=after)


def differentiate(
    gates: Tensor, candidate: Tensor, after: Tensor, grad: Tensor, d_state: Tensor, d_gates: Tensor, sums: Tensor
) -> None:
    """In place: the gradients of the gates' sums, their totals over the steps (and the candidate's), and the part of the
    earlier state's that does not go through the weight; `grad` is what it has from elsewhere."""
    size = candidate.shape[1]
    (r, z, g), (d_r, d_z, d_g) = gates.split(size, 1), d_gates.split(size, 1)
    d_new = torch.addcmul(d_state, d_state, z, value=-1)  # (1 - z) d_state
    d_c = aten.tanh_backward(d_new, candidate)
    aten.sigmoid_backward.grad_input(d_c * g, r, grad_input=d_r)
    torch.mul(d_new, after - candidate, out=d_z)  # z (h - c) = h' - c
    torch.mul(d_c, r, out=d_g)
    sums[:, : 3 * size] += d_gates
    sums[:, 3 * size :] += d_c
    torch.addcmul(grad, d_state, z, out=d_state)


def split(room: Tensor) -> tuple[Tensor, Tensor, Tensor]:
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
