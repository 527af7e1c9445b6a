"""The unroll as autograd and `torch.compile` see it. The compiler takes it as it is: the C passes are faster than what it
would make of the steps, and there is less to compile."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ponderosa.steps.gru_unroll import Stop, run, run_back, split


class Unroll(torch.autograd.Function):
    """The states `[steps, batch, size]`; of fewer steps, where `stop` says so."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, state: Tensor, weight: Tensor, bias: Tensor, steps: int, stop: Stop | None = None
    ) -> Tensor:
        if torch.compiler.is_compiling():
            room, taken = _run(inputs, state, weight, bias, steps), steps
        else:
            room, taken = run(inputs, state, weight, bias, steps, stop)
        ctx.save_for_backward(weight, state, room)
        return split(room)[-1][:taken]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        back = _run_back if torch.compiler.is_compiling() else run_back
        return *back(grad, *ctx.saved_tensors, ctx.needs_input_grad[1]), None, None


@torch.library.custom_op("ponderosa::gru_unroll", mutates_args=())
def _run(inputs: Tensor, state: Tensor, weight: Tensor, bias: Tensor, steps: int) -> Tensor:
    return run(inputs, state, weight, bias, steps)[0]


@_run.register_fake
def _(inputs: Tensor, state: Tensor, weight: Tensor, bias: Tensor, steps: int) -> Tensor:
    return state.new_empty(5 * steps, *state.shape)


@torch.library.custom_op("ponderosa::gru_unroll_back", mutates_args=())
def _run_back(
    grad: Tensor, weight: Tensor, state: Tensor, room: Tensor, state_too: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return run_back(grad, weight, state, room, state_too)


@_run_back.register_fake
def _(
    grad: Tensor, weight: Tensor, state: Tensor, room: Tensor, state_too: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    batch, size = state.shape
    return grad.new_empty(batch, 3 * size), torch.empty_like(state), torch.empty_like(weight), grad.new_empty(3 * size)
