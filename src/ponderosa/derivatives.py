"""Gradients by hand are first derivatives: whoever asks for second ones is told so."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

Backward = Callable[..., Any]


def first_derivatives(backward: Backward) -> Backward:
    """For the backward pass of a `torch.autograd.Function`: what it gives is an error to differentiate.

    torch's own `once_differentiable` forgets that where the gradients that come in are constants: second derivatives are then
    missing without a word, though those by the function's inputs are not zero.
    """
    once = once_differentiable(backward)

    @wraps(backward)
    def wrapper(ctx: Any, *grads: Tensor | None) -> Any:
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():  # a graph of the gradients is wanted
            grads = tuple(None if grad is None else grad.detach().requires_grad_() for grad in grads)
        return once(ctx, *grads)

    return wrapper
