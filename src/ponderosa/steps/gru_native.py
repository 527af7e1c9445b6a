"""`gru_unroll` in place, its element-wise work in C: for float32 on a CPU, where it takes a quarter less time.

The first unroll of a process compiles `gru.c` with the machine's C compiler, in a quarter of a second; nothing stays on the
disk. Without a compiler, or with PONDEROSA_NATIVE=0, `gru_unroll` does the work.
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


class NativeUnroll(torch.autograd.Function):
    """See `gru_unroll.Unroll`."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, state: Tensor, weight: Tensor, bias: Tensor, steps: int, stop: Stop | None = None
    ) -> Tensor:
        inputs, transposed, before = inputs.contiguous(), weight.t(), state.contiguous()
        # one piece: the C library gives the memory of several large ones back to the system after each batch, and fetching
        # it anew costs as much as the arithmetic
        room = state.new_empty(5 * steps, *state.shape)
        parts, activate = _split(room), library().activate  # type: ignore[union-attr]
        for first, end in looks(steps) if stop else [(0, steps)]:
            for gates, candidate, after in zip(*(part[first:end].unbind() for part in parts)):
                torch.mm(before, transposed, out=gates)
                activate(*state.shape, *_pointers(gates, inputs, bias, before, candidate, after))
                before = after
            if stop and end < steps and stop(parts[-1][first:end]):
                break
        ctx.save_for_backward(weight, state, room)
        return parts[-1][:end]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weight, state, room = ctx.saved_tensors
        steps, batch, size = grad.shape
        gates, candidates, states = (part.unbind() for part in _split(room))
        befores, grads = [state, *states], [torch.zeros_like(state), *grad.contiguous().unbind()]
        d_state, d_gates, sums = grads[-1].clone(), grad.new_empty(batch, 3 * size), grad.new_zeros(batch, 4 * size)
        d_weight, transposed = torch.zeros_like(weight), d_gates.t()
        differentiate = library().differentiate  # type: ignore[union-attr]
        for k in range(steps - 1, -1, -1):
            differentiate(batch, size, *_pointers(gates[k], candidates[k], states[k], grads[k], d_state, d_gates, sums))
            d_weight.addmm_(transposed, befores[k])
            if k or ctx.needs_input_grad[1]:
                d_state.addmm_(d_gates, weight)
        d_inputs = torch.cat([sums[:, : 2 * size], sums[:, 3 * size :]], 1)
        return d_inputs, d_state, d_weight, sums[:, : 3 * size].sum(0), None, None


def fits(state: Tensor) -> bool:
    """Whether there is a C function for these numbers on this machine."""
    return state.dtype == torch.float32 and state.device.type == "cpu" and library() is not None


def _split(room: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gates `[steps, batch, 3 size]`, the candidates and the states `[steps, batch, size]`."""
    steps, (batch, size) = len(room) // 5, room.shape[1:]
    gates, candidates, states = room.split([3 * steps, steps, steps])
    return gates.view(steps, batch, 3 * size), candidates, states


def _pointers(*arrays: Tensor) -> list[int]:
    """What a C function gets: contiguous tensors."""
    return [array.data_ptr() for array in arrays]


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL | None:
    """gru.c, compiled; None where that is not possible or not wanted."""
    if os.environ.get("PONDEROSA_NATIVE") == "0":
        return None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        target = Path(folder, "gru.so")
        source = Path(__file__).with_name("gru.c")
        command = [os.environ.get("CC", "cc"), *FLAGS, *THREADS, str(source), "-o", str(target)]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=60)
            found = ctypes.CDLL(str(target))
        except (OSError, subprocess.SubprocessError):
            return None
    number, array = ctypes.c_int64, ctypes.c_void_p
    found.activate.argtypes, found.activate.restype = [number, number, *[array] * 6], None
    found.differentiate.argtypes, found.differentiate.restype = [number, number, *[array] * 7], None
    return found
