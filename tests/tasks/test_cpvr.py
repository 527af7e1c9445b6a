"""Conditional pointer-value retrieval: chains have the hops that were asked for, and answers are those of a plain loop."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ponderosa.tasks import CPVR, PVR


def by_hand(row: list[int], length: int, modulus: bool) -> tuple[int, int]:
    """The answer and the hops, as the paper tells it."""
    said = [v % length if modulus else v for v in row]
    here, hops = 1, 0
    while said[here - 1] > here:
        here, hops = said[here - 1], hops + 1
    return said[here - 1], hops


tasks = st.builds(
    lambda length, extra, train, test: CPVR(
        length, None if extra is None else length + extra, min(train, length - 2), min(test, length - 2)
    ),
    st.integers(3, 30), st.none() | st.integers(0, 300), st.integers(1, 4), st.integers(1, 9),
)  # fmt: skip


@given(tasks, st.sampled_from(["train", "validation", "test"]), st.integers(0, 50), st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_hops_and_answers(task: CPVR, split: str, index: int, size: int) -> None:
    batch = task.batch(split, index, size)
    for row, answer, hops in zip(batch.x.tolist(), batch.y.tolist(), batch.difficulty.tolist(), strict=True):
        assert by_hand(row, task.length, task.values is not None) == (answer, hops)
    assert batch.x.min() >= 1
    assert batch.x.max() <= (task.values or task.length)
    assert torch.equal(task.batch(split, index, size).x, batch.x)


def test_hops_are_balanced_and_the_test_has_more() -> None:
    task = CPVR(24)
    assert torch.bincount(task.batch("train", 3, 400).difficulty).tolist() == [0, 100, 100, 100, 100]
    assert torch.bincount(task.batch("test", 0, 900).difficulty).tolist() == [0] + [100] * 9


def test_what_is_random_is_uniform() -> None:
    """Positions of the chain and the place where it ends: each as often as any other."""
    task = CPVR(8, train_hops=1, test_hops=1)
    batch = task.batch("train", 0, 70_000)
    ends = torch.bincount(batch.x[:, 0], minlength=9)[2:]
    assert (ends / 10_000 - 1).abs().max() < 0.05
    at_last = batch.x[batch.x[:, 0] == 8][:, 7]
    assert (torch.bincount(at_last, minlength=9)[1:] / len(at_last) * 8 - 1).abs().max() < 0.1
    modulus = CPVR(8, 80, train_hops=1, test_hops=1).batch("train", 0, 60_000)
    assert (torch.bincount(modulus.x[:, 0] % 8, minlength=8)[2:] / 10_000 - 1).abs().max() < 0.05


def test_pvr() -> None:
    batch = PVR(10).batch("train", 0, 100)
    assert all(answer == row[row[0] - 1] for row, answer in zip(batch.x.tolist(), batch.y.tolist(), strict=True))


@pytest.mark.parametrize("given", [{"length": 4, "test_hops": 4}, {"length": 10, "values": 9}, {"length": 9, "train_hops": 0}])
def test_what_does_not_fit_is_refused(given: dict) -> None:
    with pytest.raises(ValueError, match=r"hops fit in|at least the length"):
        CPVR(**given)


def test_positions_are_uniform_whatever_else_is_in_the_batch() -> None:
    """The chain of an example with few hops is drawn like that of one with many."""
    batch = CPVR(24).batch("test", 0, 9 * 23_000)
    for hops in (1, 9):
        x = batch.x[batch.difficulty == hops]
        reached = torch.zeros(len(x), 25)
        here = torch.ones(len(x), dtype=torch.long)
        for _ in range(hops):
            here = x.gather(1, here[:, None] - 1)[:, 0]
            reached[torch.arange(len(x)), here] = 1
        assert (reached[:, 2:].sum(0) / (1000 * hops) - 1).abs().max() < 0.15


def test_guesses_are_right_where_they_must_be() -> None:
    task = CPVR(6, train_hops=2, test_hops=2)
    x = torch.tensor([[3, 5, 2, 1, 6, 4], [4, 1, 1, 3, 1, 1]])
    assert task.guesses(x)["the last position"].tolist() == [4, 1]
    assert task.guesses(x)["the last dead end"].tolist() == [4, 3]  # 6 is pointed to by 5; of the second only 4 is
    assert task.guesses(x)["the commonest answer"].tolist() == [1, 1]
