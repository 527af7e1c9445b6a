"""`gru_unroll` in C (see `native`): one call for many steps."""

import ctypes
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ponderosa import native
from ponderosa.steps.gru_unroll import Stop, taken
from ponderosa.until import Until

MARGIN = 1e-5


class NativeUnroll(torch.autograd.Function):
    """See `gru_unroll.Unroll`."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, state: Tensor, weight: Tensor, bias: Tensor, steps: int, stop: Stop | None = None,
        until: Until | None = None,
    ) -> Tensor:  # fmt: skip
        inputs, state, transposed, bias = (given.contiguous() for given in (inputs, state, weight.t(), bias))
        # one piece: the C library gives the memory of several large ones back to the system after each batch, and fetching
        # it anew costs as much as the arithmetic
        room = state.new_empty(5 * steps, *state.shape)
        states = room[4 * steps :]  # before them stand the gates and the candidates
        ends = state.new_empty(len(state) + 2, dtype=torch.long)
        halt = (None, None, None) if until is None else tuple(given.contiguous() for given in until)

        def take(first: int, end: int) -> None:
            _operator("gru_forward")(first, end, inputs, state, transposed, bias, *halt, room, ends)

        end = taken(steps, take, None if until else stop, lambda first, end: states[first:end])
        if until and not torch.compiler.is_compiling():  # a graph has as many steps as the limit: the others' states are zero
            end = int(ends[-1])
        ctx.save_for_backward(state, weight, room, ends)
        return states[:end]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        state, weight, room, ends = ctx.saved_tensors
        rows, (batch, size) = len(weight), state.shape
        found = [state.new_empty(shape) for shape in ((batch, rows), (batch, size), (rows, size), (rows,))]
        arrays = ends, state, weight.contiguous(), room, grad.contiguous()
        _operator("gru_backward")(ctx.needs_input_grad[1], *arrays, *found)
        return *found, None, None, None


def fits(state: Tensor) -> bool:
    """Whether there are C functions for these numbers on this machine."""
    return state.dtype == torch.float32 and state.device.type == "cpu" and _available()


def _available() -> bool:
    return library() is not None


_available._dynamo_marked_constant = True  # type: ignore[attr-defined]  # the compiler is to call it: see `halting.losses`


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL | None:
    """gru.c, compiled; None where that is not possible or not wanted."""
    number, array = ctypes.c_int64, ctypes.c_void_p
    arguments: dict[str, list[type]] = {
        "forward": [*[number] * 6, ctypes.c_double, *[array] * 10],
        "backward": [*[number] * 4, *[array] * 12],
    }
    return native.declared(Path(__file__).with_name("gru.c"), arguments)


def _forward(
    first: int, end: int, inputs: Tensor, state: Tensor, transposed: Tensor, bias: Tensor,
    halt_weight: Tensor | None, halt_bias: Tensor | None, level: Tensor | None, room: Tensor, ends: Tensor,
) -> None:  # fmt: skip
    work = torch.empty_like(inputs), torch.zeros(len(state), dtype=torch.float64)
    # a little more than the level: torch decides who has halted, and its rounding may differ
    numbers = native.threads(state), *state.shape, len(room) // 5, first, end, 0.0 if level is None else float(level) + MARGIN
    native.call(library(), "forward", numbers, inputs, state, transposed, bias, halt_weight, halt_bias, room, *work, ends)


def _backward(
    state_too: bool, ends: Tensor, state: Tensor, weight: Tensor, room: Tensor, grad: Tensor, d_inputs: Tensor,
    d_state: Tensor, d_weight: Tensor, d_bias: Tensor,
) -> None:  # fmt: skip
    others = (int(ends[-2]) - 1) * (weight.numel() + len(weight))  # of all threads but the first
    work = torch.empty_like(d_inputs), torch.empty_like(state), weight.new_empty(others)
    numbers = *state.shape, len(room) // 5, state_too
    native.call(library(), "backward", numbers, ends, state, weight, room, grad, d_inputs, d_state, d_weight, d_bias, *work)


def _operator(name: str) -> Any:
    """For a compiled graph the operator; otherwise the function behind it, without torch's detour."""
    return getattr(torch.ops.ponderosa, name) if torch.compiler.is_compiling() else _functions[name]


_operators = torch.library.Library("ponderosa", "DEF")  # as operators, the two can stand in a compiled graph
_operators.define(
    "gru_forward(int first, int end, Tensor inputs, Tensor state, Tensor transposed, Tensor bias, "
    "Tensor? halt_weight, Tensor? halt_bias, Tensor? level, Tensor(a!) room, Tensor(b!) ends) -> ()"
)
_operators.define(
    "gru_backward(bool state_too, Tensor ends, Tensor state, Tensor weight, Tensor room, Tensor grad, "
    "Tensor(a!) d_inputs, Tensor(b!) d_state, Tensor(c!) d_weight, Tensor(d!) d_bias) -> ()"
)
_functions = {"gru_forward": _forward, "gru_backward": _backward}
for _name, _function in _functions.items():
    _operators.impl(_name, _function, "CPU")
    _operators.impl(_name, lambda *_: None, "Meta")
