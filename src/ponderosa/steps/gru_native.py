"""The element-wise passes of `gru_in_place` in C, for float32 on a CPU: one pass over the numbers instead of many.

The first unroll of a process compiles `gru.c` with the machine's C compiler, in a quarter of a second; nothing stays on the
disk. Without a compiler, or with PONDEROSA_NATIVE=0, torch does the work.
"""

import ctypes
import os
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")
THREADS = ("-fopenmp",) if sys.platform == "linux" else ()  # elsewhere the compiler may not know it


def fits(state: Tensor) -> bool:
    """Whether there are C functions for these numbers on this machine."""
    return state.dtype == torch.float32 and state.device.type == "cpu" and library() is not None


def activate(gates: Tensor, input_n: Tensor, before: Tensor, candidate: Tensor, after: Tensor) -> None:
    """See `gru_in_place.activate`; all tensors are contiguous."""
    arrays = gates, input_n, before, candidate, after
    library().activate(*after.shape, *[a.data_ptr() for a in arrays])  # type: ignore[union-attr]


def differentiate(
    gates: Tensor, candidate: Tensor, after: Tensor, grad: Tensor, d_state: Tensor, d_gates: Tensor, sum_gates: Tensor,
    sum_c: Tensor,
) -> None:  # fmt: skip
    """See `gru_in_place.differentiate`; all tensors are contiguous."""
    arrays = gates, candidate, after, grad, d_state, d_gates, sum_gates, sum_c
    library().differentiate(*after.shape, *[a.data_ptr() for a in arrays])  # type: ignore[union-attr]


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
    found.activate.argtypes, found.activate.restype = [number, number, *[array] * 5], None
    found.differentiate.argtypes, found.differentiate.restype = [number, number, *[array] * 8], None
    return found
