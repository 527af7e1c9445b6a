"""`gru_unroll` in C, for float32 on a CPU: one call for many steps, and few passes over the numbers.

The first unroll of a process compiles `gru.c` with the machine's C compiler, in less than half a second; nothing stays on the
disk. Without a compiler, or with PONDEROSA_NATIVE=0, torch does the work.
"""

import ctypes
import os
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ponderosa.steps.gru_unroll import Stop, looks

FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")
THREADS = ("-fopenmp",) if sys.platform == "linux" else ()  # elsewhere the compiler may not know it
SHARE = 4096  # numbers of a state: with fewer, a thread is not worth its start


class NativeUnroll(torch.autograd.Function):
    """See `gru_unroll.Unroll`."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, state: Tensor, weight: Tensor, bias: Tensor, steps: int, stop: Stop | None = None
    ) -> Tensor:
        inputs, before, transposed, bias = (given.contiguous() for given in (inputs, state, weight.t(), bias))
        # one piece: the C library gives the memory of several large ones back to the system after each batch, and fetching
        # it anew costs as much as the arithmetic
        room = state.new_empty(5 * steps, *state.shape)
        parts = _split(room)
        for first, end in looks(steps, stop):
            new = [part[first:end] for part in parts]
            _call("forward", (_threads(state), *new[-1].shape), inputs, before, transposed, bias, *new)
            before = parts[-1][end - 1]
            if stop and end < steps and stop(new[-1]):
                break
        ctx.save_for_backward(state, weight, room)
        return parts[-1][:end]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        state, weight, room = ctx.saved_tensors
        threads, (batch, size) = _threads(state), state.shape
        d_inputs, d_state, d_gates, d_g = (state.new_empty(batch, n * size) for n in (3, 1, 3, 1))
        d_weight, d_bias = weight.new_empty(threads, 3 * size, size), weight.new_empty(threads, 3 * size)
        numbers = threads, *grad.shape, ctx.needs_input_grad[1]
        given = state.contiguous(), weight.contiguous(), *_split(room), grad.contiguous()
        _call("backward", numbers, *given, d_inputs, d_state, d_weight, d_bias, d_gates, d_g)
        return d_inputs, d_state, _sum(d_weight), _sum(d_bias), None, None


def fits(state: Tensor) -> bool:
    """Whether there are C functions for these numbers on this machine."""
    return state.dtype == torch.float32 and state.device.type == "cpu" and library() is not None


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL | None:
    """gru.c, compiled; None where that is not possible or not wanted."""
    if os.environ.get("PONDEROSA_NATIVE") == "0":
        return None
    source = Path(__file__).with_name("gru.c")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        target = Path(folder, "gru.so")
        command = [os.environ.get("CC", "cc"), *FLAGS, *THREADS, str(source), "-o", str(target)]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=60)
            found = ctypes.CDLL(str(target))
        except (OSError, subprocess.SubprocessError):
            return None
    number, array = ctypes.c_int64, ctypes.c_void_p
    found.forward.argtypes, found.forward.restype = [*[number] * 4, *[array] * 7], None
    found.backward.argtypes, found.backward.restype = [*[number] * 5, *[array] * 12], None
    return found


def _call(function: str, numbers: tuple[int, ...], *arrays: Tensor) -> None:
    """A function of the library; all arrays are contiguous."""
    getattr(library(), function)(*numbers, *[array.data_ptr() for array in arrays])


def _threads(state: Tensor) -> int:
    return max(1, min(torch.get_num_threads(), state.numel() // SHARE))


def _sum(parts: Tensor) -> Tensor:
    """Of what each thread found."""
    return parts[0] if len(parts) == 1 else parts.sum(0)


def _split(room: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gates `[steps, batch, 3 size]`, the candidates and the states `[steps, batch, size]`."""
    steps, (batch, size) = len(room) // 5, room.shape[1:]
    gates, candidates, states = room.split([3 * steps, steps, steps])
    return gates.view(steps, batch, 3 * size), candidates, states
