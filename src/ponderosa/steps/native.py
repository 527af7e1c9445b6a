"""The element-wise passes of the GRU as C functions, for numbers in float32 on a CPU.

The first unroll of a process compiles `gru.c` with the machine's C compiler, which takes a quarter of a second; nothing is
kept on the disk. Without a compiler, or with PONDEROSA_NATIVE=0, torch computes the same in more operations.
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

SOURCE = Path(__file__).with_name("gru.c")
FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")
THREADS = ("-fopenmp",) if sys.platform == "linux" else ()  # elsewhere the compiler may not know it


def fits(state: Tensor) -> bool:
    """Whether the C functions compute these numbers on this machine."""
    return state.dtype == torch.float32 and state.device.type == "cpu" and ready()


def ready() -> bool:
    return _library() is not None


ready._dynamo_marked_constant = True  # type: ignore[attr-defined]  # the compiler is to call it, not to look into it


def activate(*arrays: Tensor) -> None:
    """See `gru_unroll.activate`."""
    _call("activate", arrays)


def differentiate(*arrays: Tensor) -> None:
    """See `gru_unroll.differentiate`."""
    _call("differentiate", arrays)


def _call(name: str, arrays: tuple[Tensor, ...]) -> None:
    getattr(_library(), name)(*arrays[1].shape, *[array.data_ptr() for array in arrays])


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL | None:
    if os.environ.get("PONDEROSA_NATIVE") == "0":
        return None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        target = Path(folder, "gru.so")
        try:
            command = [os.environ.get("CC", "cc"), *FLAGS, *THREADS, str(SOURCE), "-o", str(target)]
            subprocess.run(command, check=True, capture_output=True, timeout=60)
            library = ctypes.CDLL(str(target))
        except (OSError, subprocess.SubprocessError):
            return None
    number, array = ctypes.c_int64, ctypes.c_void_p
    library.activate.argtypes = [number, number, *[array] * 5]
    library.differentiate.argtypes = [number, number, *[array] * 7]
    library.activate.restype = library.differentiate.restype = None
    return library
