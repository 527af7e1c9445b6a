"""Attention of packed rows in C: the same as torch's, and only where nobody wants more than the numbers."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ponderosa.steps import attention_native
from ponderosa.steps.attention import _attend_one_by_one, attend, attend_packed
from tests.compiler import native

HEADS, SIZE = 3, 48


def rows(counts: list[tuple[int, int]], seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, list[int], list[int]]:
    draw = torch.Generator().manual_seed(seed)
    asking, shown = [q for q, _ in counts], [k for _, k in counts]
    queries, keys_values = torch.randn(sum(asking), SIZE, generator=draw), torch.randn(sum(shown), 2 * SIZE, generator=draw)
    return queries, keys_values, asking, shown


@native
@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 20), st.integers(1, 40)), min_size=1, max_size=5), st.integers(0, 9))
def test_c_equals_torch(counts: list[tuple[int, int]], seed: int) -> None:
    queries, keys_values, asking, shown = rows(counts, seed)
    with torch.no_grad():
        assert attention_native.fits(queries, keys_values, HEADS, max(shown))
        found = attend_packed(queries, keys_values, HEADS, asking, shown)
        expected = _attend_one_by_one(queries, keys_values, HEADS, asking, shown)
    torch.testing.assert_close(found, expected, atol=2e-6, rtol=1e-5)


@native
@torch.no_grad()
def test_examples_that_ask_nothing_and_batches_without_padding() -> None:
    queries, keys_values, asking, shown = rows([(2, 5), (0, 3), (4, 4)])
    found = attend_packed(queries, keys_values, HEADS, asking, shown)
    alone = attend_packed(queries[2:], keys_values[8:], HEADS, [4], [4])
    assert torch.equal(found[2:], alone)  # neighbours change nothing, to the last digit
    padded = attend(queries[2:].view(2, 2, SIZE), keys_values[:10].view(2, 5, -1), HEADS)
    by_torch = attend(queries[2:].view(2, 2, SIZE).double(), keys_values[:10].view(2, 5, -1).double(), HEADS)
    torch.testing.assert_close(padded, by_torch.float(), atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("why", ["gradients", "doubles", "long", "odd heads"])
def test_torch_does_what_c_does_not(why: str) -> None:
    queries, keys_values, asking, shown = rows([(2, attention_native.SHORT + 1 if why == "long" else 3)])
    if why == "doubles":
        queries, keys_values = queries.double(), keys_values.double()
    heads = 4 if why == "odd heads" else HEADS
    with torch.set_grad_enabled(why == "gradients"):
        assert not attention_native.fits(queries, keys_values, heads, max(shown))
        assert attend_packed(queries, keys_values, heads, asking, shown).shape == queries.shape


@native
@torch.no_grad()
def test_numbers_that_do_not_fit_are_refused_before_c_sees_them() -> None:
    queries, keys_values, _, _ = rows([(2, 5), (3, 4)])
    for asking, shown in (([2, 3], [5, 5]), ([2, 2], [5, 4]), ([6, -1], [5, 4])):
        with pytest.raises(ValueError, match="as many rows as the counts say"):
            attention_native.attend_packed(queries, keys_values, HEADS, asking, shown)
    found = attention_native.attend_packed(queries, keys_values, HEADS, [2, 3], [0, 9])
    assert not found[:2].any()  # who sees nothing attends to nothing
    assert found[2:].any()
    assert not attention_native.fits(queries, keys_values[:0], HEADS, 0)


def test_a_processor_attends_in_single_precision() -> None:
    """Under autocast, too, where the library's own would halve it."""
    queries, keys_values, asking, shown = rows([(2, 5), (3, 4)])
    expected = _attend_one_by_one(queries, keys_values, HEADS, asking, shown)
    with torch.autocast("cpu", torch.bfloat16):
        found = attend_packed(queries, keys_values, HEADS, asking, shown)
        padded = attend(queries[:2, None], keys_values[:2, None], HEADS, torch.ones(2, 1, dtype=torch.bool))
        doubles = attend_packed(queries.double(), keys_values.double(), HEADS, asking, shown)
    assert found.dtype == padded.dtype == torch.float32 and doubles.dtype == torch.float64
    torch.testing.assert_close(found, expected)
