"""Mutual information against a direct evaluation of the paper's equation 2, and the depths that follow."""

import math
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import ponderosa as po
from ponderosa.depth import Shuffled
from ponderosa.depth.mutual_information import bins, mutual_information
from ponderosa.depth.occurrences import Occurrences
from ponderosa.depth.words import split_words

few = settings(max_examples=40, deadline=None)
LETTERS = st.text("abc", min_size=1, max_size=2)
CORPUS = st.lists(st.tuples(st.lists(LETTERS, max_size=5).map(" ".join), st.integers(0, 2)), min_size=1, max_size=12)


def direct(word: str, texts: list[str], labels: list[int]) -> float:
    """Equation 2, cell by cell: sentence presence, 0.1 added to each cell, marginals of the smoothed cells."""
    total = 0.0
    for label in set(labels):
        cells = {}
        for has_word in (False, True):
            for has_label in (False, True):
                pairs = zip(texts, labels, strict=True)
                count = sum(((word in split_words(t, True)) == has_word) and ((y == label) == has_label) for t, y in pairs)
                cells[has_word, has_label] = count + 0.1
        everything = sum(cells.values())
        for (x, y), cell in cells.items():
            p_x = sum(v for (a, _), v in cells.items() if a == x) / everything
            p_y = sum(v for (_, b), v in cells.items() if b == y) / everything
            total += cell / everything * math.log(cell / everything / (p_x * p_y))
    return total


@given(CORPUS)
@few
def test_information_is_equation_2(corpus: list[tuple[str, int]]) -> None:
    texts, labels = [t for t, _ in corpus], [y for _, y in corpus]
    estimator = po.MutualInformation.fit(texts, labels, layers=5)
    assert set(estimator.information) == {word for text in texts for word in split_words(text, True)}
    for word, information in estimator.information.items():
        assert information == pytest.approx(direct(word, texts, labels), rel=1e-9, abs=1e-12)
        assert information >= 0


def test_by_hand() -> None:
    """Two sentences of each label; "x" in both of the first and none of the second."""
    high, low, everything = 2.1, 0.1, 4.4
    cell = high / everything * math.log(high * everything / (2.2 * 2.2)) + low / everything * math.log(
        low * everything / 2.2**2
    )
    found = mutual_information(torch.tensor([[2, 0], [1, 1]]), torch.tensor([2, 2]))
    assert found.tolist() == [pytest.approx(4 * cell), 0.0]


@given(st.lists(st.floats(1e-9, 1.0), min_size=1, max_size=30), st.integers(1, 15))
@few
def test_bins_are_of_fixed_width(values: list[float], layers: int) -> None:
    information = torch.tensor([*values, 0.0], dtype=torch.float64)
    depths = bins(information, layers)
    assert depths[-1] == layers
    scaled = -information[:-1].log()
    low, high = scaled.min().item(), scaled.max().item()
    assert depths[:-1][scaled.argmin()] == 1
    if high > low:
        assert depths[:-1][scaled.argmax()] == layers
        for depth, value in zip(depths[:-1].tolist(), scaled.tolist(), strict=True):
            place = (value - low) / (high - low) * layers
            assert depth - 1 - 1e-6 <= place <= depth + 1e-6
    order = information[:-1].argsort(descending=True)
    assert (depths[:-1][order].diff() >= 0).all()  # the more a word tells, the shallower


def test_unseen_words_and_their_option() -> None:
    texts, labels = ["good film", "bad film"], [1, 0]
    assert po.MutualInformation.fit(texts, labels, layers=7).depths("unheard") == [7]
    assert po.MutualInformation.fit(texts, labels, layers=7, unseen=2).depths(["unheard good", ""]) == [[2, 1], []]


def test_saved_and_loaded(tmp_path: Path) -> None:
    for estimator in (
        po.MutualInformation.fit(["Ünïcode “film”", "bad film"], [1, 0], layers=3, unseen=2),
        po.Constant(4, layers=9),
        Shuffled({"bad": 1, "ünïcode": 3}, layers=3),
    ):
        estimator.save(tmp_path / "depths.json")
        again = type(estimator).load(tmp_path / "depths.json")
        assert type(again) is type(estimator)
        assert again.facts() == estimator.facts()
        assert po.DepthEstimator.load(tmp_path / "depths.json").depths("bad Ünïcode x") == estimator.depths("bad Ünïcode x")
    with pytest.raises(ValueError, match="holds no MutualInformation"):
        po.MutualInformation.load(tmp_path / "depths.json")
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(ValueError, match="not a file of depths"):
        po.DepthEstimator.load(tmp_path / "other.json")


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="1 texts and 2 labels"):
        po.MutualInformation.fit(["a"], [0, 1])
    with pytest.raises(ValueError, match="need the tokenizer's words"):
        po.Constant(1).depths(torch.ones(1, 2, dtype=torch.long))
    with pytest.raises(ValueError, match="between 1 and layers=3"):
        po.Constant(4, layers=3)


def test_words_of_one_text_can_be_unseen() -> None:
    texts, labels = ["a fine film", "a dull film", "a fine plot", "dull acting"], [1, 0, 1, 0]
    words = po.MutualInformation.fit(texts, labels, layers=3)
    before = words.depths("fine plot unheard")
    rare = Occurrences.of(texts).rare(1)
    assert sorted(rare) == ["acting", "plot"]
    assert words.without(rare).depths("fine plot unheard") == [before[0], 3, 3]
    assert words.depths("fine plot unheard") == before  # a copy
