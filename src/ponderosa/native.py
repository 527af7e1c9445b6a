"""C functions, for float32 on a CPU: few calls, and few passes over the numbers.

The first use in a process compiles them with the machine's C compiler, in about a second; nothing stays on the disk. Without a
compiler, or with PONDEROSA_NATIVE=0, torch does the work.
"""

import ctypes
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor
from torch.autograd import forward_ad

FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")
THREADS = ("-fopenmp",) if sys.platform == "linux" else ()  # elsewhere the compiler may not know it
SHARE = 4096  # numbers of a state: with fewer, a thread is not worth its start


@lru_cache(maxsize=8)
def compiled(source: Path) -> ctypes.CDLL | None:
    """A C file, compiled; None where that is not possible or not wanted."""
    if os.environ.get("PONDEROSA_NATIVE") == "0":
        return None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        target = Path(folder, "library.so")
        command = [os.environ.get("CC", "cc"), *FLAGS, *THREADS, str(source), "-o", str(target), "-lm"]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=60)
            return ctypes.CDLL(str(target))
        except (OSError, subprocess.SubprocessError):
            return None


def declared(source: Path, arguments: Mapping[str, Sequence[type]]) -> ctypes.CDLL | None:
    """A C file, compiled, that says which types its functions take (none gives anything back)."""
    found = compiled(source)
    for name, types in arguments.items() if found is not None else ():
        function = getattr(found, name)
        function.argtypes, function.restype = types, None
    return found


def call(library: ctypes.CDLL | None, function: str, numbers: Sequence[float], *arrays: Tensor | None) -> None:
    """A function of a library; all arrays are contiguous, and None is no array."""
    getattr(library, function)(*numbers, *[None if array is None else array.data_ptr() for array in arrays])


def threads(state: Tensor) -> int:
    """How many threads are worth their start."""
    return max(1, min(torch.get_num_threads(), state.numel() // SHARE))


def watched() -> bool:
    """Whether somebody follows torch's operators, to count, trace, batch or differentiate them: C would escape them."""
    return (
        torch._C._len_torch_dispatch_stack() > 0 or torch.jit.is_tracing() or forward_ad._current_level >= 0
        or torch._C._functorch.peek_interpreter_stack() is not None
    )  # fmt: skip
