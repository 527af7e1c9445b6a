"""Many steps of a GRU on a constant input in one operation, with the backward pass by hand: a third of autograd's work.

With r, z = sigmoid(i_rz + W_rz h + b_rz), g = W_n h + b_n and c = tanh(i_n + r g), the next state is h' = c + z (h - c).
Nothing here is done in place, so that `torch.compile` can fuse it; `gru_native` does the same in C.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ponderosa.derivatives import first_derivatives

Stop = Callable[[Tensor], int]
"""Is shown the newest states, and says after how many steps it wants to see more; 0 for enough."""
FEWEST = 3
"""Steps between two looks: a look takes about as long as they do."""


class Unroll(torch.autograd.Function):
    """The states `[steps, batch, size]` of a GRU; of fewer steps, where `stop` says so of the latest states."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, state: Tensor, weight: Tensor, bias: Tensor, steps: int, stop: Stop | None = None
    ) -> Tensor:
        states, kept = [state], []

        def take(first: int, end: int) -> None:
            for _ in range(first, end):
                *parts, after = gru(inputs, torch.addmm(bias, states[-1], weight.t()), states[-1])
                states.append(after)
                kept.extend(parts)

        taken(steps, take, stop, lambda first, end: torch.stack(states[first + 1 : end + 1]))
        ctx.save_for_backward(weight, *states, *kept)  # each by itself: the compiler would copy them together
        return torch.stack(states[1:])

    @staticmethod
    @first_derivatives
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        steps, _, size = grad.shape
        weight, *rest = ctx.saved_tensors
        states, kept = rest[: steps + 1], rest[steps + 1 :]
        d_state, d_weight = grad[-1], torch.zeros_like(weight)
        sum_gates, sum_c = torch.zeros_like(grad[0]).repeat(1, 3), torch.zeros_like(grad[0])
        for k in range(steps - 1, -1, -1):
            r, z, g, c = kept[4 * k : 4 * k + 4]
            d_gates, d_c, d_state = gru_back(r, z, g, c, states[k + 1], d_state)
            sum_gates, sum_c = sum_gates + d_gates, sum_c + d_c
            d_weight = torch.addmm(d_weight, d_gates.t(), states[k])
            d_state = d_state + grad[k - 1] if k else d_state
            if k or ctx.needs_input_grad[1]:
                d_state = torch.addmm(d_state, d_gates, weight)
        return torch.cat([sum_gates[:, : 2 * size], sum_c], 1), d_state, d_weight, sum_gates.sum(0), None, None


def gru(inputs: Tensor, gates: Tensor, before: Tensor) -> tuple[Tensor, ...]:
    """One step from i and W h + b: r, z, g, the candidate c and the next state."""
    size = before.shape[-1]
    r, z = torch.sigmoid(inputs[..., : 2 * size] + gates[..., : 2 * size]).split(size, -1)
    g = gates[..., 2 * size :]
    # tanh(a) = 2 sigmoid(2a) - 1: on a CPU torch computes a sigmoid five times as fast as a tanh
    c = 2 * torch.sigmoid(2 * torch.addcmul(inputs[..., 2 * size :], r, g)) - 1
    return r, z, g, c, c + z * (before - c)


def gru_back(r: Tensor, z: Tensor, g: Tensor, c: Tensor, after: Tensor, d_state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of W h, of the candidate's sum, and of the state before, as far as it does not go through W."""
    d_new = d_state * (1 - z)
    d_c = d_new * (1 - c * c)
    d_gates = torch.cat([d_c * g * r * (1 - r), d_new * (after - c), d_c * r], 1)  # z (h - c) = h' - c
    return d_gates, d_c, d_state * z


def taken(
    steps: int, take: Callable[[int, int], None], stop: Stop | None, shown: Callable[[int, int], Tensor]
) -> int:  # fmt: skip
    """Take steps, all or until `stop` has seen enough; how many were taken."""
    end, more = 0, FEWEST if stop else steps
    while more and end < steps:
        first, end = end, min(end + max(more, FEWEST), steps)
        end = steps if end == steps - 1 else end  # nobody is asked about a single last step
        take(first, end)
        more = stop(shown(first, end)) if stop and end < steps else 0
    return end
