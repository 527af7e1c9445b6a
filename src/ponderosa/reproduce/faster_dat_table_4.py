"""Faster depth-adaptive transformers, table 4: what a layer's price in reconstruction does to accuracy, speed and depth."""

from collections.abc import Mapping
from typing import Any

from ponderosa.adapt import load
from ponderosa.bench.text import speed_by_batch
from ponderosa.depth import DepthEstimator
from ponderosa.depth.reconstruction import PENALTY
from ponderosa.reproduce.faster_dat import FULL, depths_file, jobs, prepare, task_of
from ponderosa.reproduce.faster_dat_figure_1 import running_depth
from ponderosa.reproduce.recipe import Outcome, plus_minus, results
from ponderosa.tasks.text import TextClassification
from ponderosa.training.jobs import Job

__all__ = ["jobs", "outcome", "prepare", "shows_part"]

shows_part = True
COLUMNS = {
    "task": "task", "penalty": "lambda", "accuracy": "accuracy, %", "speed": "texts in 10 s, batch 1",
    "speedup": "times full depth", "bound": "possible by operations", "depth": "mean depth",
    "paper_accuracy": "paper: accuracy", "paper_speed": "paper: in 10 s", "paper_depth": "paper: depth",
}  # fmt: skip


def outcome(recipe: Mapping[str, Any], groups: Mapping[str, list[Job]]) -> Outcome:
    """A row for each penalty: the depth of a fitted one, and the rest where a model was trained with it."""
    rows = []
    for task in recipe["tasks"]:
        data = task_of(recipe, task)
        for name, options in recipe["runs"].items():
            penalty = options.get("penalty", PENALTY)
            file = depths_file(recipe["root"], task, penalty)
            if name == FULL or not file.exists():
                continue
            paper = {f"paper_{key}": value for key, value in recipe["paper"][name].items()}
            depth = running_depth(DepthEstimator.load(file), data.texts("test"))
            row = {"task": task, "penalty": penalty, "depth": f"{depth:.2f}", **paper}
            rows.append({**row, **_trained(groups.get(f"{task}: {name}", []), data)})
    depths = [float(row["depth"]) for row in rows]
    falls = "falls" if depths == sorted(depths, reverse=True) else "does not fall"
    text = f"Depth is the mean over the words of the test texts; it {falls} as lambda grows. Empty: not trained."
    return Outcome(rows, COLUMNS, text, {})


def _trained(group: list[Job], data: TextClassification) -> dict[str, Any]:
    if not group:
        return {}
    runs = [{**run, "accuracy": 100 * run["accuracy"]} for run in results(group)]
    net = load(group[0].folder / "model").net
    fast = speed_by_batch(net, data, sizes=(1,))[0]
    shown = {key: f"{fast[key]:.2f}" for key in ("speedup", "bound")}
    return {"accuracy": plus_minus(runs, "accuracy", 2), "speed": round(fast["speed"]), **shown}
