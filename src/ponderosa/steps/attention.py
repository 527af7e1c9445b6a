"""Attention of queries to the keys and values of their own example: on padded batches, and on packed rows."""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ponderosa.host import tensor
from ponderosa.native import watched
from ponderosa.steps import attention_native


def attend(queries: Tensor, keys_values: Tensor, heads: int, mask: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    """Padded: queries `[batch, token, size]`, keys and values side by side `[batch, token, 2 size]`, True for real keys in
    the mask `[batch, token]`; gives `[batch, token, size]`. A bias `[batch or 1, head, query, key]` is added to the scores."""
    if _halved(queries):
        with torch.autocast("cpu", enabled=False):
            return attend(queries.float(), keys_values.float(), heads, mask, None if bias is None else bias.float())
    if mask is not None and _nothing_padded(mask):
        mask = None
    shown = keys_values.shape[1]
    if mask is None and bias is None and attention_native.fits(queries, keys_values, heads, shown):
        (examples, asking, _), rows, showing = queries.shape, queries.flatten(0, 1), keys_values.flatten(0, 1)
        packed = attention_native.attend_packed(rows, showing, heads, [asking] * examples, [shown] * examples)
        return packed.view_as(queries)
    q, k, v = _split(queries, keys_values, heads)
    if mask is not None:
        mask = (mask | ~mask.any(1, keepdim=True))[:, None, None]  # who has no key at all sees every one, rather than NaN
    if bias is not None:
        mask = bias if mask is None else bias.masked_fill(~mask, -torch.inf)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)


def _halved(queries: Tensor) -> bool:
    """Whether a processor would attend in half precision, under autocast: torch's gradient takes ten times as long there."""
    changed = queries.device.type == "cpu" and torch.is_autocast_enabled("cpu") and queries.dtype != torch.float64
    return changed and not torch.compiler.is_compiling()


def _nothing_padded(mask: Tensor) -> bool:
    """Attention that need not mask anything is faster; only where a look at the mask costs next to nothing."""
    return mask.device.type == "cpu" and not torch.compiler.is_compiling() and not watched() and bool(mask.all())


WASTE = 2.0
"""Padding of queries may make attention this many times as much work: one call for all examples is worth it."""


def attend_packed(
    queries: Tensor, keys_values: Tensor, heads: int, query_counts: Sequence[int], key_counts: Sequence[int]
) -> Tensor:
    """Packed: queries `[rows, size]` and keys and values `[rows, 2 size]` of one example after the other, as many rows of each
    as the counts say; gives `[query rows, size]`. Examples never meet."""
    if _halved(queries):
        with torch.autocast("cpu", enabled=False):
            return attend_packed(queries.float(), keys_values.float(), heads, query_counts, key_counts)
    if attention_native.fits(queries, keys_values, heads, max(key_counts)):
        return attention_native.attend_packed(queries, keys_values, heads, query_counts, key_counts)
    if len(query_counts) == 1:
        return attend(queries[None], keys_values[None], heads)[0]
    asking = [(q, k) for q, k in zip(query_counts, key_counts, strict=True) if q]
    q_counts, k_counts = [q for q, _ in asking], [k for _, k in asking]
    needed, padded = sum(q * k for q, k in asking), len(asking) * max(q_counts) * max(k_counts)
    # padding keys and values, and a mask for it, would take longer than further calls
    together = min(k_counts) == max(k_counts) and padded <= WASTE * needed
    attend_all = _attend_together if together else _attend_one_by_one
    return attend_all(queries, keys_values, heads, q_counts, k_counts)


def _attend_one_by_one(
    queries: Tensor, keys_values: Tensor, heads: int, query_counts: list[int], key_counts: list[int]
) -> Tensor:
    """A call for each example; heads are told apart once for all of them."""
    q, k, v = _split(queries[None], keys_values[None], heads)
    examples = zip(q.split(query_counts, 2), k.split(key_counts, 2), v.split(key_counts, 2), strict=True)
    return torch.cat([F.scaled_dot_product_attention(*each).transpose(1, 2) for each in examples], 1).flatten(2)[0]


def _attend_together(
    queries: Tensor, keys_values: Tensor, heads: int, query_counts: list[int], key_counts: list[int]
) -> Tensor:
    """All examples, which have equally many keys, in one call, padded to equally many queries."""
    padded, places = _padded(queries, query_counts)
    shown = keys_values.view(len(key_counts), key_counts[0], -1)
    attended = attend(padded, shown, heads).flatten(0, 1)
    return attended if places is None else attended.index_select(0, places)


def _padded(rows: Tensor, counts: Sequence[int]) -> tuple[Tensor, Tensor | None]:
    """Packed rows as `[example, most, size]`, and the places where they stand in it, flattened (None: just where they did)."""
    examples, most = len(counts), max(counts)
    if min(counts) == most:
        return rows.view(examples, most, -1), None
    missing = most - np.array(counts)
    shift = (missing.cumsum() - missing).repeat(counts)  # the padding of the examples before
    places = tensor(np.arange(len(rows)) + shift, rows)
    padded = rows.new_zeros(examples * most, rows.shape[1]).index_copy_(0, places, rows)
    return padded.view(examples, most, -1), places


def _split(queries: Tensor, keys_values: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values as `[batch, head, token, size of a head]`."""
    (batch, asking, size), shown = queries.shape, keys_values.shape[1]
    q = queries.view(batch, asking, heads, size // heads).transpose(1, 2)
    k, v = keys_values.view(batch, shown, 2, heads, size // heads).permute(2, 0, 3, 1, 4)
    return q, k, v
