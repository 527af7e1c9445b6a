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
from ponderosa.host import Array

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
        not torch.compiler.is_compiling() and not torch.is_grad_enabled() and 0 < longest <= SHORT and queries.numel() > 0
        and queries.shape[-1] % (WHOLE * heads) == 0
        and all(each.dtype == torch.float32 and each.device.type == "cpu" for each in (queries, keys_values))
        and not torch.is_autocast_enabled("cpu") and not native.watched() and library() is not None
    )  # fmt: skip


def attend_packed(
    queries: Tensor, keys_values: Tensor, heads: int, query_counts: Sequence[int], key_counts: Sequence[int]
) -> Tensor:
    """As `attention.attend_packed`."""
    queries, keys_values = queries.contiguous(), keys_values.contiguous()
    counts, attended = np.array([query_counts, key_counts], np.int64).T.copy(), torch.empty_like(queries)
    size, most = queries.shape[-1], counts.max(0)
    _check(queries, keys_values, counts)
    padded = -(-int(most[1]) // WHOLE) * WHOLE
    shape = Shape(min(native.threads(queries), len(counts)), len(counts), heads, size, padded * (size // heads + int(most[0])))
    room = queries.new_empty(shape.threads * shape.room)
    arrays = (array.data_ptr() for array in (queries, keys_values, attended, room))
    library().attend(shape, counts.ctypes.data, *arrays)
    return attended


def _check(queries: Tensor, keys_values: Tensor, counts: Array) -> None:
    """C would read and write past arrays that do not fit each other."""
    (rows, size), (shown, width) = queries.shape, keys_values.shape
    if counts.min() < 0 or counts.sum(0).tolist() != [rows, shown] or width != 2 * size:
        raise ValueError(
            f"queries [{rows}, {size}], keys and values [{shown}, {width}], for {counts.sum(0).tolist()} rows: there must be "
            "as many rows as the counts say, and keys and values side by side"
        )


@lru_cache(maxsize=1)
def library() -> Any:
    """attention.c, compiled; None where that is not possible or not wanted."""
    return native.declared(Path(__file__).with_name("attention.c"), {"attend": [Shape, *[ctypes.c_void_p] * 5]})
