"""The pooling of packed tokens in C (see `native`), where no gradient is needed."""

import ctypes
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ponderosa import native
from ponderosa.host import Array


def fits(rows: Tensor) -> bool:
    """Whether there is a C function for these numbers, and nobody wants gradients or watches."""
    return (
        rows.dtype == torch.float32 and rows.device.type == "cpu" and not torch.is_grad_enabled()
        and not torch.compiler.is_compiling() and not native.watched() and library() is not None
    )  # fmt: skip


def max_mean(rows: Tensor, counts: Array) -> Tensor:
    """ReLU([max; mean]) `[example, 2 size]` of packed tokens `[rows, size]`; the counts are checked."""
    counts, rows = np.ascontiguousarray(counts, np.int64), rows.contiguous()
    pooled = rows.new_empty(len(counts), 2 * rows.shape[1])
    library().max_mean(len(pooled), rows.shape[1], counts.ctypes.data, rows.data_ptr(), pooled.data_ptr())
    return pooled


@lru_cache(maxsize=1)
def library() -> Any:
    """heads.c, compiled; None where that is not possible or not wanted."""
    types = [*[ctypes.c_int64] * 2, *[ctypes.c_void_p] * 3]
    return native.declared(Path(__file__).with_name("heads.c"), {"max_mean": types})
