"""The ledger's arithmetic in C (see `native`): a mechanism's few numbers in one call, not in twenty operations."""

import ctypes
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ponderosa import native
from ponderosa.derivatives import first_derivatives

ARRAYS = {"settle": 10, "settle_back": 10, "weigh": 3, "weigh_back": 6}
"""How many the functions of ledger.c take, after three numbers."""


class Settle(torch.autograd.Function):
    """The weights `[k, U]`, the values `[k, U, ...]` weighed, then alive, spent and steps `[U]`: see `Ledger.settle`."""

    @staticmethod
    def forward(
        ctx: Any, shares: Tensor | None, dones: Tensor, left: Tensor | None, values: Tensor, alive: Tensor, spent: Tensor,
        steps: Tensor, limit: bool,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        told = [None if each is None else each.contiguous() for each in (shares, dones, left)]
        before, values = [each.contiguous() for each in (alive, spent, steps)], values.contiguous()
        weights, after = spent.new_empty(dones.shape), [torch.empty_like(each) for each in before]
        _call("settle", (len(dones), spent.numel(), limit), *told, *before, weights, *after)
        ctx.told = left is not None
        ctx.save_for_backward(weights, values, before[0], before[2], *after)
        ctx.mark_non_differentiable(after[0], after[2])
        ctx.set_materialize_grads(False)
        return weights, _weighed(weights, values), *after

    @staticmethod
    @first_derivatives
    def backward(
        ctx: Any, grad: Tensor | None, grad_total: Tensor | None, _alive: Any, grad_spent: Tensor | None, _steps: Any
    ) -> tuple[Tensor | None, ...]:
        weights, values, *account = ctx.saved_tensors
        needs, d_values = ctx.needs_input_grad, None
        found: list[Any] = [None] * 3
        soft = needs[0] or needs[2] or needs[5]
        if grad_total is not None:
            grad, d_values = _weigh_back(weights, values, grad_total, grad, soft)
        if soft and not (grad is None and grad_spent is None):
            like = weights, account[3], account[3]
            given = [torch.zeros_like(each) if g is None else g.contiguous() for g, each in zip((grad, grad_spent), like)]
            found = [torch.empty_like(each) for each in like]
            _call("settle_back", (len(weights), account[3].numel(), ctx.told), *account, *given, *found)
        d_shares, d_left, d_spent = found
        return d_shares if needs[0] else None, None, d_left if needs[2] else None, d_values, None, d_spent, None, None


class Weigh(torch.autograd.Function):
    """The sum of values `[k, U, ...]` over the steps, weighed `[k, U]`."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, values: Tensor) -> Tensor:
        weights, values = weights.contiguous(), values.contiguous()
        ctx.save_for_backward(weights, values)
        return _weighed(weights, values)

    @staticmethod
    @first_derivatives
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor]:
        weights, values = ctx.saved_tensors
        return _weigh_back(weights, values, grad, None, ctx.needs_input_grad[0])


def _weighed(weights: Tensor, values: Tensor) -> Tensor:
    total = torch.empty_like(values[0])
    _call("weigh", _shape(weights, values), weights, values, total)
    return total


def _weigh_back(
    weights: Tensor, values: Tensor, grad: Tensor, others: Tensor | None, soft: bool
) -> tuple[Tensor | None, Tensor]:
    """The gradients of the weights, with what they have from elsewhere, and of the values; hard haltings' weights need none."""
    d_weights, d_values = torch.empty_like(weights) if soft else None, torch.empty_like(values)
    arrays = grad.contiguous(), None if others is None else others.contiguous(), d_weights, d_values
    _call("weigh_back", _shape(weights, values), weights, values, *arrays)
    return d_weights, d_values


def _shape(weights: Tensor, values: Tensor) -> tuple[int, int, int]:
    return len(weights), weights[0].numel(), values.numel() // max(weights.numel(), 1)


def fits(*numbers: Tensor) -> bool:
    """Whether there are C functions for these numbers on this machine."""
    return (
        not torch.compiler.is_compiling()  # which fuses torch's own operations
        and all(each.dtype == torch.float32 and each.device.type == "cpu" for each in numbers) and library() is not None
    )  # fmt: skip


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL | None:
    """ledger.c, compiled; None where that is not possible or not wanted."""
    numbers, array = [ctypes.c_int64] * 3, ctypes.c_void_p
    arguments = {name: [*numbers, *[array] * count] for name, count in ARRAYS.items()}
    return native.declared(Path(__file__).with_name("ledger.c"), arguments)


def _call(function: str, numbers: tuple[int, int, int], *arrays: Tensor | None) -> None:
    native.call(library(), function, numbers, *arrays)
