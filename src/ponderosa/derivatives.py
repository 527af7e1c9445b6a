"""Gradients by hand are first derivatives: whoever asks for second ones is told so."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

Backward = Callable[..., Any]


def first_derivatives(backward: Backward) -> Backward:
    """For the backward pass of a `torch.autograd.Function`: what it gives is an error to differentiate.

    torch's own `once_differentiable` forgets that where the gradients that come in are constants: second derivatives are then
    missing without a word, though those by the function's inputs are not zero.
    """

    @wraps(backward)
    def wrapper(ctx: Any, *grads: Tensor | None) -> Any:
        with torch.no_grad():
            found = backward(ctx, *grads)
        if torch.compiler.is_compiling() or not torch.is_grad_enabled():  # nobody wants a graph of the gradients
            return found
        return tuple(None if each is None else _Last.apply(each.detach().requires_grad_()) for each in found)

    return wrapper


class _Last(torch.autograd.Function):
    """A gradient as it is, which has none of its own."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient.clone()

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> None:
        raise RuntimeError(
            "second derivatives (create_graph=True) of a step whose gradients are computed by hand, once: take a "
            "torch.nn.GRUCell as the step, not po.GRUStep; transformer blocks have them with PONDEROSA_NATIVE=0 in the "
            "environment, under torch.nn.attention.sdpa_kernel(SDPBackend.MATH)"
        )
