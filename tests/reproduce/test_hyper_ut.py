"""What the figures of Hyper-UT say, from numbers made up so that the words must follow."""

import pytest

from ponderosa.reproduce.hyper_ut import average, finding, guessing, over_seeds, written
from ponderosa.reproduce.hyper_ut_figure_3 import factors, reading
from ponderosa.reproduce.hyper_ut_figure_4 import order, reached
from ponderosa.reproduce.recipe import read_recipe, seed_by_seed
from ponderosa.tasks import CPVR


def run(near: float, far: float, steps: float = 3.0, fairness: float | None = None, dealt: float | None = None) -> dict:
    rows = [{"difficulty": h, "accuracy": near if h < 5 else far, "steps": steps} for h in range(1, 10)]
    random = None if dealt is None else {"by_difficulty": [{**row, "accuracy": dealt} for row in rows]}
    longer = [
        {"max_steps": 4, "by_difficulty": rows},
        {"max_steps": 8, "by_difficulty": [{**r, "accuracy": 0.9} for r in rows]},
    ]
    return {"by_difficulty": rows, "max_steps": 8, "fairness": fairness, "probe": {"dealt": random, "longer": longer}}


def test_spread_over_seeds() -> None:
    assert written(over_seeds([0.9, 1.0])) == "0.95 ± 0.07"
    assert written(over_seeds([0.9])) == "0.90"
    assert over_seeds([None, None]) is None
    assert average(run(1.0, 0.5), [4, 5]) == 0.75


@pytest.mark.parametrize(
    ("ours", "theirs", "word"),
    [
        ([0.9, 0.91], [0.5, 0.52], "holds (0.91 ± 0.01 against 0.51 ± 0.01)"),
        ([0.5, 0.52], [0.9, 0.91], "does not hold"),
        ([0.5, 0.7], [0.55, 0.6], "open, within the spread"),
        ([0.9], [0.5, 0.52], "one seed"),
        ([], [0.5], "not trained here"),
    ],
)
def test_a_finding_holds_beyond_the_spread(ours: list[float], theirs: list[float], word: str) -> None:
    assert word in finding("a beats b", ours, theirs)


def test_the_reading_of_figure_3() -> None:
    seen = {
        "T32": [run(1.0, 0.2), run(1.0, 0.22)],
        "T32 PS": [run(1.0, 0.6), run(1.0, 0.62)],
        "UT": [run(1.0, 0.8, 4, fairness=0.7, dealt=0.5), run(1.0, 0.8, 5, fairness=0.8, dealt=0.5)],
    }
    text = reading("plain", seen, run(0.2, 0.4), range(1, 5), range(5, 10))
    assert "a guess reaches 0.40" in text and "of training" not in text
    text_of_none = reading("plain", {"T64": [run(0.1, 0.1)]}, run(0.2, 0.4), range(1, 5), range(5, 10))
    assert "less than 0.8 of the 1 to 4 hops of training, where guessing reaches 0.20: T64 0.10." in text_of_none
    assert "(T32 PS against T32): holds (0.61 ± 0.01 against 0.21 ± 0.01)" in text
    assert "(Hyper-UT against UT): not trained here" in text
    assert "fewer steps (T32 PS against UT): does not hold (3.0 ± 0.0 against 4.5 ± 0.7)" in text
    assert "UT's steps follow hops: rank correlation 0.75 ± 0.07; dealt at random, accuracy falls by 0.30 ± 0.00" in text
    assert "with at most 8: 0.90 ± 0.00 on 5" in text


@pytest.mark.parametrize(("far", "word"), [(0.79, "is within one standard deviation"), (0.6, "is worse by more than")])
def test_what_factors_cost(far: float, word: str) -> None:
    whole = [run(1.0, 0.8) | {"parameters": 400}, run(1.0, 0.84) | {"parameters": 400}]
    parts = [run(1.0, far) | {"parameters": 92}, run(1.0, far + 0.02) | {"parameters": 92}]
    text = factors({"Hyper-UT": whole, "ours: Hyper-UT in factors": parts}, range(1, 5), range(5, 10))
    assert text.startswith("Hyper-UT in factors has 23 % of Hyper-UT's parameters") and word in text
    assert factors({"Hyper-UT": whole}, range(1, 5), range(5, 10)) == ""


def test_the_order_of_learning() -> None:
    def curriculum(*when: int) -> dict:
        return {
            "curriculum": [
                {"batch": b, "difficulty": h, "accuracy": float(b >= w)} for b in (10, 20, 30) for h, w in enumerate(when, 1)
            ]
        }

    for when, said in (
        ((10, 20, 40), "never learns more hops before fewer"),
        ((20, 10, 30), "does not learn examples in the order"),
    ):
        rows = [reached([curriculum(*when)], "plain", "UT", hops) for hops in (1, 2, 3)]
        assert said in order("plain", "UT", rows)


def test_guessing_is_far_from_chance_on_many_hops() -> None:
    """Which is why it is reported: long chains end near the end of the sequence."""
    rows = guessing(CPVR(24), 9000)
    assert rows[0]["accuracy"] < 0.2
    assert 0.5 < rows[8]["accuracy"] < 0.75
    assert rows[8]["guess"] == "the last dead end"


def test_a_recipe_that_extends_another() -> None:
    recipe = read_recipe("hyper-ut-figure-7")
    assert recipe["models"] == ["T12", "T32", "T64"]
    assert recipe["folder"] == "hyper-ut-figure-3"
    assert recipe["runs"] == read_recipe("hyper-ut-figure-3")["runs"]
    assert seed_by_seed({"a": ["a0", "a1"], "b": ["b0"]}) == ["a0", "b0", "a1"]
    with pytest.raises(FileNotFoundError, match="no recipe"):
        read_recipe("hyper-ut-figure-99")
