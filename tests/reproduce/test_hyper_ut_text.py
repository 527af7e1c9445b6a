"""What the figures of the text-to-text runs say, from numbers made up so that the words must follow."""

from pathlib import Path

from ponderosa.reproduce.hyper_ut_figure_5 import LINES, configuration, jobs, reading, standard_error
from ponderosa.reproduce.hyper_ut_figure_8 import ERRORS
from ponderosa.reproduce.hyper_ut_figure_8 import reading as errors_reading
from ponderosa.reproduce.recipe import read_recipe


def run(label: float, last: float) -> dict:
    return {
        "by_difficulty": [
            {"difficulty": h, "label": label, "last": last - 0.05 * (h > 5), "tokens": h + 3} for h in range(1, 10)
        ]
    }


GUESS = {"by_difficulty": [{"difficulty": h, "accuracy": 0.4} for h in range(1, 10)]}


def test_the_spread_is_that_of_the_mean() -> None:
    found = standard_error([run(0.8, 1.0), run(0.9, 1.0), run(1.0, 1.0), run(0.9, 1.0)], "label", 1)
    assert found is not None
    assert round(found.mean, 6) == 0.9
    assert round(found.deviation, 6) == round((0.02 / 3) ** 0.5 / 2, 6)


def test_the_reading_of_figure_5() -> None:
    last, label, alone = LINES
    pads, plain = [run(0.2, 0.9), run(0.22, 0.92)], [run(0.5, 0.5), run(0.52, 0.52)]
    lines = {last: (pads, "last"), label: (pads, "label"), alone: (plain, "label")}
    text = reading("plain", lines, GUESS, range(1, 5), range(5, 10))
    assert f"{label} is beyond chance (against the best guess): does not hold (0.21 ± 0.01 against 0.40)." in text
    assert f"{last} on 1 to 4 hops: 0.91 ± 0.01.\n" in text
    assert f"{label} on 1 to 4 hops: 0.21 ± 0.01: it did not learn these" in text
    assert f"{alone} is beyond chance (against the best guess): holds" in text
    assert f"{last} falls with hops (5 against 9): holds (0.91 ± 0.01 against 0.86 ± 0.01)" in text
    assert "a scratch-pad helps, by its last number (against none): holds" in text
    assert "a scratch-pad hurts the label before it (none against with): holds (0.51 ± 0.01 against 0.21 ± 0.01)" in text


def test_the_reading_of_figure_8() -> None:
    shares = {kind: [0.0] * 9 for kind in ERRORS}
    shares["pad exact, label wrong"] = [0.5] * 8 + [0.1]
    shares["both wrong, consistent"] = [0.01] * 4 + [0.2] * 5
    shares["label right, pad inexact"] = [0.0] * 4 + [0.03] * 5
    text = errors_reading("plain", shares, 4)
    assert "behind a wrong label, at every number of hops: holds at 1, 2, 3, 4, 5, 6, 7, 8 hops only" in text
    assert "0.0% at most up to 4 hops, 3.0% at most beyond" in text
    assert "1.0% of all answers at 4 hops and 20.0% at 9" in text
    assert "No answer is malformed" in text


def test_the_recipes_make_jobs() -> None:
    for name, count in (("hyper-ut-figure-5", 8), ("hyper-ut-figure-8", 2), ("hyper-ut-figure-5-paper-size", 4)):
        made = jobs(read_recipe(name), Path("runs/reproduce/x"))
        assert len(made) == count
        assert all(len(group) == 3 for group in made.values())
    beside = jobs(read_recipe("hyper-ut-figure-5"), Path("runs/reproduce/x"))["modulus: UT"][0]
    assert "length: 16" in beside.config
    assert "values: 160" in beside.config
    large, settings = configuration(read_recipe("hyper-ut-figure-5-paper-size"), "modulus", "with scratch-pad", 0)
    assert large.model == "google-t5/t5-small"
    assert round(settings.batches * settings.batch_size / large.train_examples) == 15
