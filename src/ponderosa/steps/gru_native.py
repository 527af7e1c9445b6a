"""`gru_unroll` in C (see `native`): one call for many steps."""

import ctypes
import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ponderosa import native
from ponderosa.steps.gru_unroll import Stop, taken

MARGIN = 1e-5


class NativeUnroll(torch.autograd.Function):
    """See `gru_unroll.Unroll`; also what a gate and a linear head, where they are given, read of the states: logits
    `[steps, batch]`, answers `[steps, batch, ...]`. The gate's `level` then ends it, and `stop` is not asked.
    """

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, state: Tensor, weight: Tensor, bias: Tensor, steps: int, stop: Stop | None = None,
        gate_weight: Tensor | None = None, gate_bias: Tensor | None = None, level: Tensor | None = None,
        head_weight: Tensor | None = None, head_bias: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:  # fmt: skip
        inputs, state, transposed, bias = (given.contiguous() for given in (inputs, state, weight.t(), bias))
        # one piece: the C library gives the memory of several large ones back to the system after each batch, and fetching
        # it anew costs as much as the arithmetic
        room = state.new_empty(5 * steps, *state.shape)
        states = room[4 * steps :]  # before them stand the gates and the candidates
        ends = state.new_empty(len(state) + 2, dtype=torch.long)
        given = gate_weight, gate_bias, head_weight, head_bias
        layers = [None if each is None else each.contiguous() for each in given]
        logits = state.new_empty(0 if gate_weight is None else steps, len(state))
        answers = state.new_empty(steps, len(state), 0 if head_weight is None else len(head_weight))

        def take(first: int, end: int) -> None:
            arrays = inputs, state, transposed, bias, *layers, level, room, logits, answers, ends
            _operator("gru_forward")(first, end, *arrays)

        end = taken(steps, take, stop if level is None else None, lambda first, end: states[first:end])
        if level is not None and not torch.compiler.is_compiling():  # a graph has as many steps as the limit: the rest is zero
            end = int(ends[-1])
        ctx.save_for_backward(state, weight, layers[0], layers[2], room, ends)
        ctx.set_materialize_grads(False)
        logits_too, answers_too = gate_weight is not None, head_weight is not None
        return states[:end], logits[:end] if logits_too else None, answers[:end] if answers_too else None

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        state, weight, gate_weight, head_weight, room, ends = ctx.saved_tensors
        rows, (batch, size) = len(weight), state.shape
        counts = [0 if grad is None else len(layer) for grad, layer in zip(grads[1:], (gate_weight, head_weight), strict=True)]
        shapes = (batch, rows), (batch, size), (rows, size), (rows,), *((count * (size + 1),) for count in counts)
        found = [state.new_empty(shape) for shape in shapes]
        arrays = ends, state, weight.contiguous(), gate_weight, head_weight, room
        given = [None if grad is None else grad.contiguous() for grad in grads]
        _operator("gru_backward")(ctx.needs_input_grad[1], *arrays, *given, *found)
        *of_steps, of_gate, of_head = found
        return *of_steps, None, None, *_split(of_gate, size), None, *_split(of_head, size)


def _split(found: Tensor, size: int) -> tuple[Tensor, Tensor] | tuple[None, None]:
    """The gradients of a linear layer's weights and of its biases, which stand after them."""
    count = len(found) // (size + 1)
    return (found[: count * size].view(count, size), found[count * size :]) if count else (None, None)


def fits(state: Tensor, weight: Tensor) -> bool:
    """Whether there are C functions for these numbers on this machine."""
    return state.dtype == weight.dtype == torch.float32 and state.device.type == "cpu" and _available()


def _available() -> bool:
    return library() is not None


_available._dynamo_marked_constant = True  # type: ignore[attr-defined]  # the compiler is to call it: see `signature`


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL | None:
    """gru.c, compiled; None where that is not possible or not wanted."""
    number, array = ctypes.c_int64, ctypes.c_void_p
    arguments: dict[str, list[type]] = {
        "forward": [*[number] * 7, ctypes.c_double, *[array] * 14],
        "backward": [*[number] * 5, *[array] * 18],
    }
    return native.declared(Path(__file__).with_name("gru.c"), arguments)


def _forward(
    first: int, end: int, inputs: Tensor, state: Tensor, transposed: Tensor, bias: Tensor,
    gate_weight: Tensor | None, gate_bias: Tensor | None, head_weight: Tensor | None, head_bias: Tensor | None,
    level: Tensor | None, room: Tensor, logits: Tensor, answers: Tensor, ends: Tensor,
) -> None:  # fmt: skip
    work = torch.empty_like(inputs), torch.zeros(len(state), dtype=torch.float64)
    # a little more than the level: torch decides who has halted, and its rounding may differ
    enough = math.inf if level is None else float(level) + MARGIN
    numbers = native.threads(state), *state.shape, len(room) // 5, first, end, answers.shape[-1], enough
    layers = gate_weight, gate_bias, head_weight, head_bias
    native.call(library(), "forward", numbers, inputs, state, transposed, bias, *layers, room, *work, logits, answers, ends)


def _backward(
    state_too: bool, ends: Tensor, state: Tensor, weight: Tensor, gate_weight: Tensor | None, head_weight: Tensor | None,
    room: Tensor, grad: Tensor | None, grad_logits: Tensor | None, grad_answers: Tensor | None, d_inputs: Tensor,
    d_state: Tensor, d_weight: Tensor, d_bias: Tensor, d_gate: Tensor, d_head: Tensor,
) -> None:  # fmt: skip
    own = weight.numel() + len(weight) + d_gate.numel() + d_head.numel()
    work = torch.empty_like(d_inputs), torch.empty_like(state), weight.new_empty((int(ends[-2]) - 1) * own)
    numbers = *state.shape, len(room) // 5, 0 if head_weight is None else len(head_weight), state_too
    given = grad, grad_logits, grad_answers
    found = d_inputs, d_state, d_weight, d_bias, d_gate, d_head
    native.call(library(), "backward", numbers, ends, state, weight, gate_weight, head_weight, room, *given, *found, *work)


def _operator(name: str) -> Any:
    """For a compiled graph the operator; otherwise the function behind it, without torch's detour."""
    return getattr(torch.ops.ponderosa, name) if torch.compiler.is_compiling() else _functions[name]


_operators = torch.library.Library("ponderosa", "DEF")  # as operators, the two can stand in a compiled graph
_operators.define(
    "gru_forward(int first, int end, Tensor inputs, Tensor state, Tensor transposed, Tensor bias, "
    "Tensor? gate_weight, Tensor? gate_bias, Tensor? head_weight, Tensor? head_bias, Tensor? level, "
    "Tensor(a!) room, Tensor(b!) logits, Tensor(c!) answers, Tensor(d!) ends) -> ()"
)
_operators.define(
    "gru_backward(bool state_too, Tensor ends, Tensor state, Tensor weight, Tensor? gate_weight, Tensor? head_weight, "
    "Tensor room, Tensor? grad, Tensor? grad_logits, Tensor? grad_answers, Tensor(a!) d_inputs, Tensor(b!) d_state, "
    "Tensor(c!) d_weight, Tensor(d!) d_bias, Tensor(e!) d_gate, Tensor(f!) d_head) -> ()"
)
_functions = {"gru_forward": _forward, "gru_backward": _backward}
for _name, _function in _functions.items():
    _operators.impl(_name, _function, "CPU")
    _operators.impl(_name, lambda *_: None, "Meta")
