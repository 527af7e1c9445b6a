"""Faster depth-adaptive transformers, figure 4: speed against batch size, with and without the time of the estimation."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ponderosa.adapt import load
from ponderosa.bench.text import speed_by_batch
from ponderosa.measure.figure import MARKERS, PALETTE, Look, legend, panels, style
from ponderosa.reproduce.faster_dat import FULL, gain, jobs, prepare, task_of
from ponderosa.reproduce.recipe import Outcome, results
from ponderosa.training.jobs import Job

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["jobs", "outcome", "prepare", "shows_part"]

shows_part = True
COLUMNS = {
    "task": "task", "method": "method", "batch": "batch", "speed": "texts in 10 s", "full_speed": "at full depth",
    "speedup": "speed-up", "speedup_known": "without the estimation", "possible": "possible in time",
    "bound": "by operations", "share": "share", "share_known": "share without the estimation",
    "estimation_microseconds": "estimation, us per text",
}  # fmt: skip


def outcome(recipe: Mapping[str, Any], groups: Mapping[str, list[Job]]) -> Outcome:
    """A row for each task, method and batch size: measured now, on one thread."""
    rows = []
    for name, group in groups.items():
        task, method = name.split(": ", 1)
        whole = groups.get(f"{task}: {FULL}", [])
        if method not in recipe.get("measured", set(recipe["runs"]) - {FULL}) or not group or not whole:
            continue
        net, full = (load(each[0].folder / "model").net for each in (group, whole))
        rows += [{"task": task, "method": method, **row} for row in speed_by_batch(net, task_of(recipe, task), full=full)]
    shown = [{key: f"{row[key]:,.2f}" if isinstance(row[key], float) else row[key] for key in COLUMNS} for row in rows]
    tasks = dict.fromkeys(row["task"] for row in rows)
    figures = {task: draw([row for row in rows if row["task"] == task]) for task in tasks}
    text = " ".join(filter(None, [reading(rows), *(goal(rows, task, groups) for task in tasks)]))
    return Outcome(shown, COLUMNS, text, figures, {"speeds": rows})


def reading(rows: list[dict[str, Any]]) -> str:
    """The shares, and what was reached of the paper's 7 times."""
    if not rows:
        return "No model is trained yet."
    best = max(rows, key=lambda row: row["speedup"])
    low, median = _low_and_median([row["share"] for row in rows])
    low_known, median_known = _low_and_median([row["share_known"] for row in rows])
    return (
        f"The share of the possible saving that becomes time: median {median:.2f}, lowest {low:.2f} with the estimation; "
        f"median {median_known:.2f}, lowest {low_known:.2f} without. The most is {best['speedup']:.2f} times full depth "
        f"({best['method']} on {best['task']}, batch {best['batch']}); the paper says 7 at batch 1, where 12 layers at its own "
        "mean depth of about 4 allow 3."
    )


def goal(rows: list[dict[str, Any]], task: str, groups: Mapping[str, list[Job]]) -> str:
    """What the fastest method of a task that is within half a point of full depth gains at its worst batch size, and whether
    that is the paper's 7 times."""
    full = results(groups[f"{task}: {FULL}"])
    least = {
        method: min(row["speedup"] for row in rows if row["task"] == task and row["method"] == method)
        for method in dict.fromkeys(row["method"] for row in rows if row["task"] == task)
    }
    gains = {method: gain(results(groups[f"{task}: {method}"]), full) for method in least}
    near = {method: least[method] for method in least if gains[method] >= -0.5}
    if not near:
        return f"On {task} no method is within 0.5 points of full depth."
    best = max(near, key=near.__getitem__)
    reached = "is reached" if near[best] >= 7 else "is not"
    return (
        f"On {task} {best} is {near[best]:.2f} times as fast or more at every batch size, at {gains[best]:+.2f} points: "
        f"7 times {reached}."
    )


def _low_and_median(values: list[float]) -> tuple[float, float]:
    ordered = sorted(values)
    return ordered[0], ordered[len(ordered) // 2]


@style()
def draw(rows: list[dict[str, Any]]) -> "Figure":
    """Texts in ten seconds, and times full depth; dotted: what is possible."""
    figure, (speeds, ratios) = panels("Texts in ten seconds", "Times full depth (dotted: possible)", height=2.2)
    names = list(dict.fromkeys(row["method"] for row in rows))
    looks = [Look(name, PALETTE[i % len(PALETTE)], MARKERS[i % len(MARKERS)], "-") for i, name in enumerate(names)]
    for look in looks:
        line = [row for row in rows if row["method"] == look.label]
        batches = [row["batch"] for row in line]
        speeds.plot(batches, [row["speed"] for row in line], color=look.color, marker=look.marker)
        ratios.plot(batches, [row["speedup"] for row in line], color=look.color, marker=look.marker)
        ratios.plot(batches, [row["possible"] for row in line], color=look.color, linestyle=":")
    whole = Look(FULL, "#6b7280", "o", "--")
    first = [row for row in rows if row["method"] == names[0]]
    speeds.plot([row["batch"] for row in first], [row["full_speed"] for row in first], color=whole.color, marker="o", ls="--")
    ratios.set_xlabel("Batch size")
    legend(figure, [*looks, whole])
    return figure
