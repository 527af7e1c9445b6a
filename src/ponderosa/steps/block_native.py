"""A plain `Block` in C (see `native`), forward and backward: few examples at a time, whose numbers stay in the cache."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, TypeGuard

import torch
from torch import Tensor, nn

from ponderosa import native
from ponderosa.derivatives import first_derivatives
from ponderosa.hooks import hooked
from ponderosa.steps.block import Block, Layer

WHOLE = 16
"""What heads and layers are counted in: a product in C has whole vectors as its rows."""

TOGETHER = 12288
"""Numbers of the states computed together, where an example has fewer: longer products, whose numbers stay in the cache."""
CACHE, MANY = 2**18, 160_000
"""With more weights than a core's cache holds, so many numbers are: each weight that is fetched then serves more of them."""


class Shape(ctypes.Structure):
    """`shape` in block.c."""

    _fields_: ClassVar = [
        (name, ctypes.c_int64)
        for name in ("threads", "batch", "group", "tokens", "padded", "heads", "size", "inner", "post", "rows")
    ]


class Room:
    """Numbers that a backward pass needs; when nobody needs them any more, the next batch takes their memory over.

    Given back to the system, it would have to be fetched anew for every batch, which costs a tenth of the training.
    """

    free: ClassVar[list[Tensor]] = []

    def __init__(self, count: int):
        try:
            found = self.free.pop()
        except IndexError:
            found = None
        if found is not None and len(found) != count:
            self.free.clear()  # of another shape, as all of them
            found = None
        self.numbers = torch.empty(count) if found is None else found

    def __del__(self) -> None:
        self.free.append(self.numbers)


class NativeBlock(torch.autograd.Function):
    """The states of steps in a row `[steps, batch, token, size]`; `parameters` as `parameters` gives them."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, steps: int, heads: int, post: bool, *parameters: Tensor) -> Tensor:
        h = h.contiguous()
        batch, tokens, size = h.shape
        inner, padded = parameters[-2].shape[1], -(-tokens // WHOLE) * WHOLE
        together = TOGETHER if sum(each.numel() for each in parameters) < CACHE else MANY
        group = max(1, together // (tokens * size))
        ctx.shape = Shape(native.threads(h), batch, group, tokens, padded, heads, size, inner, post)
        ctx.sizes = (ctypes.c_int64 * 2)()
        library().sizes(ctx.shape, ctx.sizes)
        transposed = [each.t().contiguous() for each in parameters]
        kept = steps if any(ctx.needs_input_grad) else 1
        ctx.rooms, states = [Room(batch * tokens * ctx.sizes[0]) for _ in range(kept)], h.new_empty(steps, *h.shape)
        for n, (before, after) in enumerate(zip((h, *states), states, strict=False)):
            _call("forward", ctx, _pointers(transposed), before, ctx.rooms[n % kept].numbers, after)
        # the last state is not needed: where it is the only one, whoever has it may change it
        ctx.save_for_backward(h, states if steps > 1 else None, *parameters)
        return states

    @staticmethod
    @first_derivatives
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        h, states, *parameters = ctx.saved_tensors
        parameters = [each.contiguous() for each in parameters]
        counts = [each.numel() for each in parameters]
        found, grad = h.new_zeros(ctx.shape.threads, sum(counts)), grad.contiguous()
        each_thread = [part for own in found for part in own.split(counts)]
        d_state, d_before = grad[-1], torch.empty_like(h)
        for n in reversed(range(len(ctx.rooms))):
            arrays = states[n - 1] if n else h, ctx.rooms[n].numbers, d_state, d_before
            _call("backward", ctx, _pointers(parameters), _pointers(each_thread), *arrays)
            if n:
                d_state = d_before + grad[n - 1]
        gradients = zip((found.sum(0) if len(found) > 1 else found[0]).split(counts), parameters, strict=True)
        return d_before, None, None, None, *(gradient.view_as(each) for gradient, each in gradients)


def fits(layer: Layer, h: Tensor) -> TypeGuard[Block]:
    """Whether there are C functions for this layer and these numbers, and gradients are wanted."""
    return (
        type(layer) is Block and torch.is_grad_enabled() and h.dtype == torch.float32 and h.device.type == "cpu" and h.ndim == 3
        and h.numel() > 0 and not torch.compiler.is_compiling() and not torch.is_autocast_enabled("cpu")
        and not native.watched() and _plain(layer) and library() is not None
    )  # fmt: skip


def advance_through(layer: Block, h: Tensor, steps: int) -> Tensor:
    """The states of all tokens, which all see each other, after each step of a repeated layer `[steps, batch, token, size]`."""
    return NativeBlock.apply(h, steps, layer.heads, layer.norm == "post", *parameters(layer))


def parameters(layer: Any) -> list[Tensor]:
    """A block's, in the order of `Parameter` in block.c."""
    return [parameter for part in _parts(layer) for parameter in (part.weight, part.bias)]


def _parts(layer: Any) -> tuple[Any, ...]:
    up, _, down = layer.mlp
    return layer.norm_attention, layer.norm_mlp, layer.query, layer.key_value, layer.out, up, down


def _plain(layer: Block) -> bool:
    """Whether the block is just what its class says, nothing exchanged, hooked on or dropped out, and its sizes fit C."""
    if layer.between is not None or (layer.training and layer.dropout.p) or layer.size // layer.heads % WHOLE:
        return False
    norms, denses, between = _parts(layer)[:2], _parts(layer)[2:], layer.mlp[1]
    return (
        all(type(norm) is nn.LayerNorm and norm.eps == 1e-5 for norm in norms)
        and all(type(dense) is nn.Linear for dense in denses) and denses[-1].in_features % WHOLE == 0
        and type(between) is nn.GELU and between.approximate == "none" and all(map(_ordinary, parameters(layer)))
        and not any(map(_altered, layer.modules()))
    )  # fmt: skip


def _ordinary(weight: Any) -> bool:
    """Whether C can read it: there, in memory of its own, not something else that passes for a tensor."""
    plain = type(weight) in (Tensor, nn.Parameter) and weight.layout == torch.strided
    return plain and weight.dtype == torch.float32 and weight.device.type == "cpu"


def _altered(module: nn.Module) -> bool:
    """Whether somebody hooked on to a module, or gave it methods of its own."""
    return hooked(module) or any(name in vars(module) for name in ("forward", "queries", "keys_values", "finish"))


@lru_cache(maxsize=1)
def library() -> Any:
    """block.c, compiled; None where that is not possible or not wanted."""
    arguments = {name: [Shape, *[ctypes.c_void_p] * arrays] for name, arrays in (("sizes", 1), ("forward", 5), ("backward", 7))}
    return native.declared(Path(__file__).with_name("block.c"), arguments)


def _call(function: str, ctx: Any, *arrays: Any) -> None:
    """A function of the library, with room for each thread; all arrays are contiguous."""
    room = torch.empty(ctx.shape.threads * ctx.sizes[1])
    given = [each.data_ptr() if isinstance(each, Tensor) else each for each in (*arrays, room)]
    getattr(library(), function)(ctx.shape, *given)


def _pointers(arrays: Sequence[Tensor]) -> Any:
    return (ctypes.c_void_p * len(arrays))(*[array.data_ptr() for array in arrays])
