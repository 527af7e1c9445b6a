"""Attention of packed rows in C (see `native`), where no gradient is needed and texts are short."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ponderosa import native

WHOLE = 16
"""What a head's numbers are counted in: a product in C has whole vectors as its rows."""
SHORT = 128
"""Keys of an example, at most: beyond, the library's own attention is as fast."""


class Shape(ctypes.Structure):
    """`shape` in attention.c."""

    _fields_: ClassVar = [(name, ctypes.c_int64) for name in ("threads", "examples", "heads", "size", "room")]


def fits(queries: Tensor, keys_values: Tensor, heads: int, longest: int) -> bool:
    """Whether there is a C function for these numbers, and nobody wants gradients or watches."""
    return (
        longest <= SHORT and not torch.is_grad_enabled() and queries.shape[-1] // heads % WHOLE == 0
        and all(each.dtype == torch.float32 and each.device.type == "cpu" for each in (queries, keys_values))
        and not torch.compiler.is_compiling() and not native.watched() and library() is not None
    )  # fmt: skip


def attend_packed(
    queries: Tensor, keys_values: Tensor, heads: int, query_counts: Sequence[int], key_counts: Sequence[int]
) -> Tensor:
    """As `attention.attend_packed`."""
    queries, keys_values = queries.contiguous(), keys_values.contiguous()
    counts, attended = np.array([query_counts, key_counts]).T.copy(), torch.empty_like(queries)
    size, most = queries.shape[-1], counts.max(0)
    padded = -(-int(most[1]) // WHOLE) * WHOLE
    shape = Shape(min(native.threads(queries), len(counts)), len(counts), heads, size, padded * (size // heads + int(most[0])))
    room = torch.empty(shape.threads * shape.room)
    arrays = (array.data_ptr() for array in (queries, keys_values, attended, room))
    library().attend(shape, counts.ctypes.data, *arrays)
    return attended


@lru_cache(maxsize=1)
def library() -> Any:
    """attention.c, compiled; None where that is not possible or not wanted."""
    return native.declared(Path(__file__).with_name("attention.c"), {"attend": [Shape, *[ctypes.c_void_p] * 5]})
