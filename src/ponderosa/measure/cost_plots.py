"""Figures of what accuracy costs: the frontier, and the speed-up by batch size."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ponderosa.measure.axes import line, percent_axis, records, series
from ponderosa.measure.figure import INK, Run, legend, looks, panels, style
from ponderosa.measure.formatting import TIMES, finite, quantity, ratio

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COSTS = {
    "mean_steps": "Mean steps (fewer is faster)", "operations": "Operations per example",
    "microseconds": "Microseconds per example, measured",
}  # fmt: skip
SLACK = 0.05
"""How far below the worst run a frontier is shown: settings that merely guess would hide all differences."""


@style()
def frontier(runs: Sequence[Run], cost: str = "mean_steps") -> "Figure":
    """Accuracy against a cost: a large marker per run as it is, and the line of all settings of its knob with the range of
    its accuracy, where they were swept. The dotted line joins the runs that no other beats in both."""
    figure, (axis,) = panels(f"Accuracy against {cost.replace('_', ' ')}", height=3.1)
    entries = looks(runs)
    points = [(finite(run.get(cost)), finite(run.get("accuracy"))) for run in runs]
    for run, (spent, accuracy), look in zip(runs, points, entries):
        swept: Any = run.get("frontier") or {}
        swept_line = sorted((p for p in swept.get("points", []) if finite(p.get(cost)) is not None), key=lambda p: p[cost])
        xs = [p[cost] for p in swept_line]
        axis.fill_between(
            xs, [p["low"] for p in swept_line], [p["high"] for p in swept_line], color=look.color, alpha=0.15, linewidth=0
        )
        axis.plot(xs, [p["accuracy"] for p in swept_line], look.dash, color=look.color)
        if spent is not None and accuracy is not None:
            axis.plot([spent], [accuracy], look.marker, color=look.color, markersize=8, clip_on=False, zorder=3)
    best = _unbeaten([(spent, accuracy) for spent, accuracy in points if spent is not None and accuracy is not None])
    axis.plot([s for s, _ in best], [a for _, a in best], ":", color=INK, linewidth=1)
    if cost == "mean_steps":
        deepest = max((finite(run.get("max_steps")) or finite(run.get("mean_steps")) or 1.0 for run in runs), default=1.0)
        axis.set_xlim(0, 1.04 * deepest)
    else:
        axis.set_xlim(left=0)
        axis.xaxis.set_major_formatter(lambda value, _: quantity(value))
        axis.locator_params(axis="x", nbins=6)
    axis.set_xlabel(COSTS[cost])
    percent_axis(axis, least=min((accuracy for _, accuracy in points if accuracy is not None), default=0.0) - SLACK)
    legend(figure, entries)
    return figure


@style()
def speed_by_batch_size(runs: Sequence[Run]) -> "Figure":
    """How many times sooner than at full depth the answers come, in batches of several sizes."""
    figure, (axis,) = panels("Speed-up over full depth", height=2.4)
    entries = looks(runs)
    for run, look in zip(runs, entries):
        sizes = [
            {**row, "sooner": ratio(row["full_microseconds"], row["microseconds"])} for row in records(run, "by_batch_size")
        ]
        axis.plot(*series(sizes, "batch_size", "sooner"), **line(look))
    axis.axhline(1, color=INK, linewidth=0.8, linestyle=":")
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_formatter("{x:g}")
    axis.set_xlabel("Batch size")
    axis.yaxis.set_major_formatter("{x:g}" + TIMES)
    axis.set_ylim(bottom=0)
    legend(figure, entries)
    return figure


def _unbeaten(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Those (steps, accuracy) that no other point equals or betters in fewer steps."""
    best: list[tuple[float, float]] = []
    for steps, accuracy in sorted(points, key=lambda point: (point[0], -point[1])):
        if not best or accuracy > best[-1][1]:
            best.append((steps, accuracy))
    return best
