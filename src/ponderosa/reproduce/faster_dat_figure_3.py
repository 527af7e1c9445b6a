"""Faster depth-adaptive transformers, figure 3: accuracy and speed against the number of layers, over several seeds."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ponderosa.adapt import load
from ponderosa.bench.text import speed_by_batch
from ponderosa.measure.figure import MARKERS, PALETTE, Look, legend, panels, style
from ponderosa.reproduce import faster_dat
from ponderosa.reproduce.faster_dat import task_of
from ponderosa.reproduce.recipe import Outcome, plus_minus, results, spread
from ponderosa.training.jobs import Job

if TYPE_CHECKING:
    from matplotlib.figure import Figure

shows_part = True
COLUMNS = {
    "task": "task", "method": "method", "layers": "layers", "accuracy": "accuracy, %", "depth": "mean depth",
    "speed": "texts in 10 s, batch 1", "bound": "speed-up possible",
}  # fmt: skip


def jobs(recipe: Mapping[str, Any], root: Path) -> dict[str, list[Job]]:
    return faster_dat.jobs(_every_depth(recipe), root)


def prepare(recipe: Mapping[str, Any], root: Path, progress: bool) -> None:
    faster_dat.prepare(_every_depth(recipe), root, progress)


def _every_depth(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """The recipe with a run for each method and number of layers."""
    runs = {
        f"{name}, {n} layers": {**options, "layers": n} for n in recipe["layers"] for name, options in recipe["runs"].items()
    }
    return {**recipe, "runs": runs}


def outcome(recipe: Mapping[str, Any], groups: Mapping[str, list[Job]]) -> Outcome:
    """A row for each method and number of layers; the speed of the first seed's model is measured now, on one thread."""
    rows: list[dict[str, Any]] = []
    for name, group in groups.items():
        if not group:
            continue
        task, method = name.split(": ", 1)
        runs, data = [{**run, "accuracy": 100 * run["accuracy"]} for run in results(group)], task_of(recipe, task)
        net = load(group[0].folder / "model").net
        fast = speed_by_batch(net, data, sizes=(1,))[0]
        rows.append({
            "task": task, "method": method.rsplit(", ", 1)[0], "layers": runs[0]["layers"],
            "accuracy": plus_minus(runs, "accuracy", 2), "depth": plus_minus(runs, "mean_depth", 2),
            "speed": round(fast["speed"]), "bound": f"{fast['bound']:.2f}", "curve": spread(runs, "accuracy"),
        })  # fmt: skip
    figures = {} if not rows else {"layers": draw(rows)}
    text = "Mean and standard deviation over seeds; the speed that operations allow stands beside the measured one."
    return Outcome(rows, COLUMNS, text, figures)


@style()
def draw(rows: list[dict[str, Any]]) -> "Figure":
    """Accuracy with its spread, and speed."""
    figure, (accuracy, speed) = panels("Accuracy, %", "Texts in ten seconds, batch 1", height=2.2)
    looks = [Look(name, PALETTE[i], MARKERS[i], "-") for i, name in enumerate(dict.fromkeys(row["method"] for row in rows))]
    for look in looks:
        line = [row for row in rows if row["method"] == look.label]
        layers, (means, deviations) = [row["layers"] for row in line], zip(*(row["curve"] for row in line), strict=True)
        accuracy.errorbar(layers, means, yerr=deviations, color=look.color, marker=look.marker, capsize=3)
        speed.plot(layers, [row["speed"] for row in line], color=look.color, marker=look.marker)
    speed.set_xlabel("Layers")
    legend(figure, looks)
    return figure
