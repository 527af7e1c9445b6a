"""`gru_unroll` in C (see `native`): one call for many steps."""

import ctypes
import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ponderosa import native
from ponderosa.compiling import constant
from ponderosa.derivatives import first_derivatives
from ponderosa.steps.gru_unroll import Stop, taken

MARGIN = 1e-5
FEW = 16
"""Rows: with more, torch's product is faster than ours, which reads the weights as they lie."""


class NativeUnroll(torch.autograd.Function):
    """See `gru_unroll.Unroll`; also the logits `[steps, batch]` that a gate reads of the states, where there is one.

    Its `level` then ends it, and `stop` is not asked.
    """

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, state: Tensor, weight: Tensor, bias: Tensor, steps: int, stop: Stop | None = None,
        gate_weight: Tensor | None = None, gate_bias: Tensor | None = None, level: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        inputs, state, transposed, bias = (given.contiguous() for given in (inputs, state, weight.t(), bias))
        # one piece: the C library gives the memory of several large ones back to the system after each batch, and fetching
        # it anew costs as much as the arithmetic
        room = state.new_empty(5 * steps, *state.shape)
        states = room[4 * steps :]  # before them stand the gates and the candidates
        ends = state.new_empty(len(state) + 2, dtype=torch.long)
        gate = [None if given is None else given.contiguous() for given in (gate_weight, gate_bias)]
        logits = state.new_empty(0 if gate_weight is None else steps, len(state))

        def take(first: int, end: int) -> None:
            _operator("gru_forward")(first, end, inputs, state, transposed, bias, *gate, level, room, logits, ends)

        end = taken(steps, take, stop if level is None else None, lambda first, end: states[first:end])
        if level is not None and not torch.compiler.is_compiling():  # a graph has as many steps as the limit: the rest is zero
            end = int(ends[-1])
        ctx.save_for_backward(state, weight, gate[0], room, ends)
        ctx.set_materialize_grads(False)
        return states[:end], None if gate_weight is None else logits[:end]

    @staticmethod
    @first_derivatives
    def backward(ctx: Any, grad: Tensor | None, grad_logits: Tensor | None) -> tuple[Tensor | None, ...]:
        state, weight, gate_weight, room, ends = ctx.saved_tensors
        rows, (batch, size) = len(weight), state.shape
        shapes = (batch, rows), (batch, size), (rows, size), (rows,), (0 if grad_logits is None else size + 1,)
        found = [state.new_empty(shape) for shape in shapes]
        grad = state.new_zeros(len(room) // 5, batch, size) if grad is None else grad.contiguous()
        given = grad, None if grad_logits is None else grad_logits.contiguous()
        _operator("gru_backward")(ctx.needs_input_grad[1], ends, state, weight.contiguous(), gate_weight, room, *given, *found)
        *of_steps, of_gate = found
        of_weight, of_bias = (None, None) if grad_logits is None else (of_gate[:size].view(1, size), of_gate[size:])
        return *of_steps, None, None, of_weight, of_bias, None


def fits(state: Tensor, weight: Tensor) -> bool:
    """Whether there are C functions for these numbers on this machine."""
    return state.dtype == weight.dtype == torch.float32 and state.device.type == "cpu" and _available()


def advance_few(inputs: Tensor, state: Tensor, weight: Tensor, bias: Tensor, steps: int) -> Tensor:
    """The state `[batch, size]` after several steps, without gradients."""
    given = [each.contiguous() for each in (inputs, state, weight, bias)]
    gates, (candidates, other), after = torch.empty_like(given[0]), state.new_empty(2, *state.shape), torch.empty_like(given[1])
    native.call(library(), "advance", (native.threads(weight), *state.shape, steps), *given, gates, candidates, other, after)
    return after


@constant
def _available() -> bool:
    return library() is not None


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL | None:
    """gru.c, compiled; None where that is not possible or not wanted."""
    number, array = ctypes.c_int64, ctypes.c_void_p
    arguments: dict[str, list[type]] = {
        "forward": [*[number] * 6, ctypes.c_double, *[array] * 11],
        "backward": [*[number] * 4, *[array] * 15],
        "advance": [*[number] * 4, *[array] * 8],
    }
    return native.declared(Path(__file__).with_name("gru.c"), arguments)


def _forward(
    first: int, end: int, inputs: Tensor, state: Tensor, transposed: Tensor, bias: Tensor,
    gate_weight: Tensor | None, gate_bias: Tensor | None, level: Tensor | None, room: Tensor, logits: Tensor, ends: Tensor,
) -> None:  # fmt: skip
    work = torch.empty_like(inputs), torch.zeros(len(state), dtype=torch.float64)
    # a little more than the level: torch decides who has halted, and its rounding may differ
    enough = math.inf if level is None else float(level) + MARGIN
    numbers = native.threads(state), *state.shape, len(room) // 5, first, end, enough
    arrays = inputs, state, transposed, bias, gate_weight, gate_bias, room, *work, logits, ends
    native.call(library(), "forward", numbers, *arrays)


def _backward(
    state_too: bool, ends: Tensor, state: Tensor, weight: Tensor, gate_weight: Tensor | None, room: Tensor,
    grad: Tensor, grad_logits: Tensor | None, d_inputs: Tensor, d_state: Tensor, d_weight: Tensor, d_bias: Tensor,
    d_gate: Tensor,
) -> None:  # fmt: skip
    others = (int(ends[-2]) - 1) * (weight.numel() + len(weight) + d_gate.numel())  # of all threads but the first
    work = torch.empty_like(d_inputs), torch.empty_like(state), weight.new_empty(others)
    numbers = *state.shape, len(room) // 5, state_too
    arrays = ends, state, weight, gate_weight, room, grad, grad_logits, d_inputs, d_state, d_weight, d_bias, d_gate, *work
    native.call(library(), "backward", numbers, *arrays)


def _operator(name: str) -> Any:
    """For a compiled graph the operator; otherwise the function behind it, without torch's detour."""
    return getattr(torch.ops.ponderosa, name) if torch.compiler.is_compiling() else _functions[name]


_operators = torch.library.Library("ponderosa", "DEF")  # as operators, the two can stand in a compiled graph
_operators.define(
    "gru_forward(int first, int end, Tensor inputs, Tensor state, Tensor transposed, Tensor bias, "
    "Tensor? gate_weight, Tensor? gate_bias, Tensor? level, Tensor(a!) room, Tensor(b!) logits, Tensor(c!) ends) -> ()"
)
_operators.define(
    "gru_backward(bool state_too, Tensor ends, Tensor state, Tensor weight, Tensor? gate_weight, Tensor room, Tensor grad, "
    "Tensor? grad_logits, Tensor(a!) d_inputs, Tensor(b!) d_state, Tensor(c!) d_weight, Tensor(d!) d_bias, Tensor(e!) d_gate) "
    "-> ()"
)
_functions = {"gru_forward": _forward, "gru_backward": _backward}
for _name, _function in _functions.items():
    _operators.impl(_name, _function, "CPU")
    _operators.impl(_name, lambda *_: None, "Meta")
