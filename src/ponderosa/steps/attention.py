"""Attention of queries to the keys and values of their own example: on padded batches, and on packed rows."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence


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
    asking = [(q, k) for q, k in zip(query_counts, key_counts, strict=True) if q]
    most = max((q for q, _ in asking), default=0)
    if len({k for _, k in asking}) == 1 and most * len(asking) <= WASTE * len(queries):
        return _attend_together(queries, keys_values, heads, [q for q, _ in asking])
    each = zip(queries.split([q for q, _ in asking]), keys_values.split([k for _, k in asking]), strict=True)
    return torch.cat([attend(q[None], kv[None], heads)[0] for q, kv in each])


WASTE = 2.0
"""Queries may be padded to this many times their number: one call for all examples is worth it."""


def _attend_together(queries: Tensor, keys_values: Tensor, heads: int, counts: Sequence[int]) -> Tensor:
    """Examples with equally many keys in one call."""
    keys_values = keys_values.unflatten(0, (len(counts), -1))
    if len(set(counts)) == 1:
        return attend(queries.unflatten(0, (len(counts), -1)), keys_values, heads).flatten(0, 1)
    padded = pad_sequence(queries.split(list(counts)), batch_first=True)
    return torch.cat([one[:count] for one, count in zip(attend(padded, keys_values, heads), counts, strict=True)])


def _split(queries: Tensor, keys_values: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values as `[batch, head, token, size of a head]`."""
    q = queries.unflatten(-1, (heads, -1)).transpose(1, 2)
    k, v = keys_values.unflatten(-1, (2, heads, -1)).movedim(1, 3).unbind(1)
    return q, k, v
