"""Parity: labels by counting, the splits, and batches that depend on their number only."""

import pytest
import torch

from ponderosa.tasks import Parity


def test_label_is_the_parity_of_ones():
    batch = Parity(9).batch("train", 3, 500)
    ones = (batch.x == 1).sum(1)
    assert torch.equal(batch.y[:, 0], (ones % 2).float())
    assert set(batch.x.unique().tolist()) == {-1.0, 0.0, 1.0}
    assert torch.equal((batch.x != 0).sum(1), batch.difficulty)


def test_the_number_of_places_is_uniform():
    counts = torch.bincount(Parity(8).batch("train", 0, 80_000).difficulty, minlength=9)
    assert counts[0] == 0
    assert (counts[1:] - 10_000).abs().max() < 500  # five standard deviations


def test_every_place_is_set_equally_often():
    x = Parity(6).batch("train", 0, 60_000).x
    share = (x != 0).float().mean(0)
    assert (share - 3.5 / 6).abs().max() < 0.012
    assert x.mean().abs() < 0.01


@pytest.mark.parametrize(("split", "low", "high"), [("train", 1, 5), ("validation", 1, 5), ("test", 6, 11)])
def test_extrapolation_tests_on_more_than_it_trains_on(split, low, high):
    difficulty = Parity(11, "extrapolation").batch(split, 0, 2000).difficulty
    assert (difficulty.min(), difficulty.max()) == (low, high)


def test_a_batch_depends_on_its_number_split_and_seed_only():
    task = Parity(12)
    again = Parity(12).batch("train", 7, 64, seed=1)
    assert torch.equal(task.batch("train", 7, 64, seed=1).x, again.x)
    for other in (task.batch("train", 8, 64, 1), task.batch("test", 7, 64, 1), task.batch("train", 7, 64, 2)):
        assert not torch.equal(other.x, again.x)


def test_a_million_examples_take_seconds():
    batch = Parity(16).batch("test", 0, 1_000_000)
    assert batch.x.shape == (1_000_000, 16)
    assert len(batch.key.unique()) == 1_000_000


@pytest.mark.parametrize(("length", "setting"), [(0, "interpolation"), (1, "extrapolation"), (8, "both")])
def test_what_cannot_be_is_refused(length, setting):
    with pytest.raises(ValueError, match=r"length|setting"):
        Parity(length, setting)


def test_score():
    output, target = torch.tensor([[2.0], [-1.0], [0.5]]), torch.tensor([[1.0], [1.0], [0.0]])
    assert Parity(4).score(output, target).tolist() == [1.0, 0.0, 0.0]
