"""The pictures of Hyper-UT's figures: by hops, over training, and against the limit on steps."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ponderosa.measure.figure import INK, Look, legend, looks, panels, style
from ponderosa.measure.plots import percent_axis, whole_numbers
from ponderosa.reproduce.hyper_ut import Runs, Spread, average, over_seeds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@style()
def by_hops(seen: Mapping[str, Runs], guess: Mapping[str, Any], near: range) -> "Figure":
    """Accuracy and mean steps by hops, with the spread over seeds; the hops of training are shaded, guessing is dotted."""
    hops = [row["difficulty"] for row in guess["by_difficulty"]]
    figure, (accuracy, steps) = _accuracy_and_steps(
        "Accuracy", seen, hops, lambda run, key: [average(run, [h], key) for h in hops]
    )
    accuracy.plot(hops, [row["accuracy"] for row in guess["by_difficulty"]], ":", color=INK, linewidth=1.2)
    for axis in (accuracy, steps):
        axis.axvspan(near[0] - 0.4, near[-1] + 0.5, color=INK, alpha=0.1, linewidth=0)
    steps.set_xlabel("Hops (shaded: seen in training; dotted: guessing)")
    return figure


@style()
def accuracy_by_hops(lines: Mapping[str, list[Spread | None]], guess: Mapping[str, Any], near: range) -> "Figure":
    """Accuracy by hops, a band for each line as wide as its spread says; shading and dots as in `by_hops`."""
    hops = [row["difficulty"] for row in guess["by_difficulty"]]
    figure, (axis,) = panels("Accuracy", height=2.8)
    entries = looks([{"name": name} for name in lines])
    for points, look in zip(lines.values(), entries):
        _band(axis, hops, points, look)
    axis.plot(hops, [row["accuracy"] for row in guess["by_difficulty"]], ":", color=INK, linewidth=1.2)
    axis.axvspan(near[0] - 0.4, near[-1] + 0.5, color=INK, alpha=0.1, linewidth=0)
    percent_axis(axis)
    axis.set_xlabel("Hops (shaded: seen in training; dotted: guessing)")
    legend(figure, entries)
    return figure


@style()
def stacked(shares: Mapping[str, list[float]], hops: list[int], train_hops: int) -> "Figure":
    """The shares of the kinds of error, one on top of the other, by hops."""
    figure, (axis,) = panels("Errors, share of all answers", height=2.8)
    entries = looks([{"name": kind} for kind in shares])
    below = [0.0] * len(hops)
    for values, look in zip(shares.values(), entries):
        axis.bar(hops, values, 0.7, bottom=below, color=look.color)
        below = [b + v for b, v in zip(below, values)]
    axis.axvspan(0.5, train_hops + 0.5, color=INK, alpha=0.1, linewidth=0)
    percent_axis(axis)
    axis.set_xlabel("Hops (shaded: seen in training)")
    whole_numbers(axis)
    legend(figure, entries)
    return figure


@style()
def longer(seen: Mapping[str, Runs], far: range) -> "Figure":
    """Accuracy on more hops than in training, and steps taken, against the limit on steps."""
    limits = [row["max_steps"] for row in next(iter(seen.values()))[0]["probe"]["longer"]]
    figure, (_, steps) = _accuracy_and_steps(
        f"Accuracy on {far[0]} to {far[-1]} hops", seen, limits,
        lambda run, key: [average(row, far, key) for row in run["probe"]["longer"]],
    )  # fmt: skip
    steps.set_xlabel("Most steps allowed in the test")
    return figure


def _accuracy_and_steps(
    title: str, seen: Mapping[str, Runs], xs: list[int], values: Callable[[Mapping[str, Any], str], list[float]]
) -> tuple["Figure", tuple["Axes", "Axes"]]:
    """Two panels with a band for each model: `values` are one run's accuracies or steps at the places `xs`."""
    figure, (accuracy, steps) = panels(title, "Mean steps")
    entries = looks([{"name": name} for name in seen])
    for runs, look in zip(seen.values(), entries):
        for axis, key in ((accuracy, "accuracy"), (steps, "steps")):
            _band(axis, xs, [over_seeds(point) for point in zip(*(values(run, key) for run in runs))], look)
    percent_axis(accuracy)
    steps.set_ylim(bottom=0)
    whole_numbers(steps)
    legend(figure, entries)
    return figure, (accuracy, steps)


@style()
def over_training(curves: Mapping[int, list[tuple[float, Spread]]], title: str) -> "Figure":
    """Accuracy over the batches of training, a line for each number of hops."""
    figure, (axis,) = panels(title, height=2.8)
    entries = looks([{"name": f"{hops} hop{'s' if hops > 1 else ''}"} for hops in curves])
    for points, look in zip(curves.values(), entries):
        _band(axis, [batch for batch, _ in points], [pair for _, pair in points], look)
    percent_axis(axis)
    axis.set_xlabel("Batch")
    legend(figure, entries)
    return figure


def _band(axis: "Axes", xs: list[Any], points: list[Any], look: Look) -> None:
    """A line through the means, and a band one standard deviation wide on either side."""
    means, deviations = [point.mean for point in points], [point.deviation for point in points]
    axis.plot(xs, means, color=look.color, marker=look.marker, linestyle=look.dash, markersize=4)
    low, high = ([m + sign * d for m, d in zip(means, deviations)] for sign in (-1, 1))
    axis.fill_between(xs, low, high, color=look.color, alpha=0.15, linewidth=0)
