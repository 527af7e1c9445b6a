"""The depth-adaptive paper's tables: what is read out of the figures, and the recipes themselves."""

from pathlib import Path

import pytest

from ponderosa.reproduce.faster_dat import FULL, jobs
from ponderosa.reproduce.faster_dat_figure_4 import draw
from ponderosa.reproduce.faster_dat_table_3 import reading
from ponderosa.reproduce.recipe import read_recipe
from ponderosa.tasks.text.sets import SETS


def test_a_control_that_wins_is_named() -> None:
    def runs(*accuracies: float) -> list[dict[str, float]]:
        return [{"accuracy": accuracy, "seed": seed} for seed, accuracy in enumerate(accuracies)]

    found = {"trec: MI estimation": runs(0.93), "trec: control: cut to 6 layers": runs(0.94), "mr: MI estimation": runs(0.8),
             "mr: control: shuffled depths": runs(0.79), "subj: MI estimation": runs(0.97, 0.95),
             "subj: control: constant depth": runs(0.965)}  # fmt: skip
    said = reading(found)
    assert "On trec cut to 6 layers (94.00) does as well as or better than MI estimation (93.00, the same seeds)." in said
    assert "On mr shuffled depths (79.00) stays below MI estimation (80.00, the same seeds)." in said
    assert "On subj constant depth (96.50) stays below MI estimation (97.00, the same seeds)." in said


def test_as_many_methods_as_are_measured_can_be_drawn() -> None:
    methods = read_recipe("faster-dat-figure-4")["measured"]
    numbers = {"batch": 1, "speed": 2.0, "full_speed": 1.0, "speedup": 2.0, "possible": 2.5}
    assert len(draw([{"method": method, **numbers} for method in methods]).axes) == 2


@pytest.mark.parametrize("name", ["faster-dat-table-4", "faster-dat-figure-4"])
def test_recipes_that_share_runs_agree_on_them(name: str, tmp_path: Path) -> None:
    own, shared = (
        {job.folder: job.config for group in jobs(read_recipe(each), tmp_path).values() for job in group}
        for each in (name, "faster-dat-table-3")
    )
    both = own.keys() & shared.keys()
    assert both
    assert {path: own[path] for path in both} == {path: shared[path] for path in both}


@pytest.mark.parametrize("name", ["faster-dat-table-2", "faster-dat-table-3"])
def test_recipes(name: str, tmp_path: Path) -> None:
    recipe = read_recipe(name)
    assert set(recipe["tasks"]) <= set(SETS)
    assert FULL in recipe["runs"]
    groups = jobs(recipe, tmp_path)
    assert len(groups) == len(recipe["tasks"]) * len(recipe["runs"])
    for name, group in groups.items():
        task, method = name.split(": ", 1)
        limits = [each.get("seeds", 3) for each in (recipe["tasks"][task], recipe["runs"][method])]
        assert len(group) == min(*limits, len(recipe["seeds"]))
        goes_on = recipe.get("goes_on", False) and method != FULL
        assert all(("full-depth" in str(job.after)) == goes_on for job in group)
    for figures in recipe["paper"].values():
        assert set(figures) == set(recipe["tasks"])
