"""Attention of queries to the keys and values of their own example: on padded batches, and on packed rows."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def attend(queries: Tensor, keys_values: Tensor, heads: int, mask: Tensor | None = None) -> Tensor:
    """Padded: queries `[batch, token, size]`, keys and values side by side `[batch, token, 2 size]`, True for real keys in
    the mask `[batch, token]`; gives `[batch, token, size]`."""
    q, k, v = _split(queries, keys_values, heads)
    if mask is not None:
        mask = (mask | ~mask.any(1, keepdim=True))[:, None, None]  # who has no key at all sees every one, rather than NaN
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)


def attend_packed(
    queries: Tensor, keys_values: Tensor, heads: int, query_counts: Sequence[int], key_counts: Sequence[int]
) -> Tensor:
    """Packed: queries `[rows, size]` and keys and values `[rows, 2 size]` of one example after the other, as many rows of each
    as the counts say; gives `[query rows, size]`. No padding is computed, and examples never meet."""
    if len(set(query_counts)) == len(set(key_counts)) == 1:
        examples = len(query_counts)
        return attend(queries.unflatten(0, (examples, -1)), keys_values.unflatten(0, (examples, -1)), heads).flatten(0, 1)
    answers = [
        attend(q[None], kv[None], heads)[0]
        for q, kv in zip(queries.split(list(query_counts)), keys_values.split(list(key_counts)), strict=True)
        if len(q)
    ]
    return torch.cat(answers)


def _split(queries: Tensor, keys_values: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values as `[batch, head, token, size of a head]`."""
    q = queries.unflatten(-1, (heads, -1)).transpose(1, 2)
    k, v = keys_values.unflatten(-1, (2, heads, -1)).movedim(1, 3).unbind(1)
    return q, k, v
