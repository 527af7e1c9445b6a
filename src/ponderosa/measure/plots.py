"""The figures of a comparison and of a reproduction. Each function gives a matplotlib `Figure`; `svg` and `save_png` write it.

`runs` are dicts as in the report (see `ponderosa.measure.report`): what is missing is left out of the figure.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ponderosa.measure.figure import INK, PALETTE, Look, Run, legend, looks, panels, save_png, short, style, svg
from ponderosa.measure.formatting import NBSP, decimal, finite, percent, quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "distribution_against_prior", "frontier", "halting_distribution", "losses", "save_png", "steps_by_difficulty",
    "svg", "sweep", "total_steps", "training_curves",
]  # fmt: skip

POINTS = 300  # of a curve: more than a figure can show, and a report stays small


@style()
def training_curves(runs: Sequence[Run]) -> "Figure":
    """Accuracy and mean steps over the batches of training; validation, where there is any, on top of training."""
    figure, (accuracy, steps) = panels("Accuracy", "Mean steps")
    entries = looks(runs)
    for run, look in zip(runs, entries):
        curve = _records(run, "curve")
        validation = _series(curve, "batch", "validation_accuracy")
        accuracy.plot(*_series(curve, "batch", "accuracy"), look.dash, color=look.color, alpha=0.35 if validation[0] else 1)
        accuracy.plot(*validation, look.dash, color=look.color)
        steps.plot(*_series(curve, "batch", "steps"), look.dash, color=look.color)
    percent_axis(accuracy)
    _steps_axis(steps)
    _batches_axis(steps)
    legend(figure, entries)
    return figure


@style()
def steps_by_difficulty(runs: Sequence[Run]) -> "Figure":
    """Mean steps and accuracy of the examples of each difficulty."""
    figure, (steps, accuracy) = panels("Mean steps", "Accuracy")
    entries = looks(runs)
    for run, look in zip(runs, entries):
        records = _records(run, "by_difficulty")
        steps.plot(*_series(records, "difficulty", "steps"), **_line(look))
        accuracy.plot(*_series(records, "difficulty", "accuracy"), **_line(look))
    _steps_axis(steps)
    percent_axis(accuracy)
    accuracy.set_xlabel("Difficulty")
    whole_numbers(accuracy)
    legend(figure, entries)
    return figure


@style()
def halting_distribution(runs: Sequence[Run], prior: Sequence[float] | None = None) -> "Figure":
    """The share of examples that halted at each step: a strip per run, each scaled to its own tallest bar."""
    figure, axes = panels(*(short(look.label) for look in looks(runs)), height=0.8)
    for axis, run, look in zip(axes, runs, looks(runs)):
        shares = _shares(run.get("histogram"))
        _bars_and_prior(axis, shares, prior, look.color)
        axis.set_title(f"peak {percent(max(shares, default=None))}", loc="right", fontweight="normal", fontsize=9)
        axis.set_yticks([])
    axes[-1].set_xlabel("Step at which the example halted")
    whole_numbers(axes[-1])
    return figure


@style()
def frontier(runs: Sequence[Run]) -> "Figure":
    """Accuracy against mean steps, a marker per run; the dotted line joins the runs that no other beats in both."""
    figure, (axis,) = panels("Accuracy against mean steps", height=3.1)
    entries = looks(runs)
    points = [(finite(run.get("mean_steps")), finite(run.get("accuracy"))) for run in runs]
    for (steps, accuracy), look in zip(points, entries):
        if steps is not None and accuracy is not None:
            axis.plot([steps], [accuracy], look.marker, color=look.color, markersize=8, clip_on=False, zorder=3)
    best = _unbeaten([(steps, accuracy) for steps, accuracy in points if steps is not None and accuracy is not None])
    axis.plot([s for s, _ in best], [a for _, a in best], ":", color=INK, linewidth=1)
    deepest = max((finite(run.get("max_steps")) or finite(run.get("mean_steps")) or 1.0 for run in runs), default=1.0)
    axis.set_xlim(0, 1.04 * deepest)
    axis.set_xlabel("Mean steps (fewer is faster)")
    percent_axis(axis)
    legend(figure, entries)
    return figure


@style()
def distribution_against_prior(steps_share: Sequence[float], prior: Sequence[float], title: str) -> "Figure":
    """Bars: the share of examples that halted at each step; line: the prior they were drawn towards."""
    figure, (axis,) = panels(title, height=2.6)
    _bars_and_prior(axis, _shares(steps_share), prior, PALETTE[0])
    axis.legend()
    axis.set_xlabel("Step")
    percent_axis(axis)
    axis.set_ylim(bottom=0)
    whole_numbers(axis)
    return figure


@style()
def losses(curve: Sequence[Mapping[str, object]], keys: Sequence[str]) -> "Figure":
    """Losses over the batches of training, a panel each: their scales differ."""
    figure, axes = panels(*(key.replace("_", " ").capitalize() for key in keys), height=1.6)
    for axis, key, color in zip(axes, keys, PALETTE * len(keys)):
        axis.plot(*_series(curve, "batch", key), color=color)
    _batches_axis(axes[-1])
    return figure


@style()
def total_steps(with_: float, without: float, title: str, labels: tuple[str, str] = ("with", "without")) -> "Figure":
    """Two bars with their numbers."""
    figure, (axis,) = panels(title, height=2.4)
    bars = axis.bar(labels, [with_, without], width=0.55, color=PALETTE[:2])
    axis.bar_label(bars, [quantity(v) if v >= 1e5 else decimal(v, 0 if v >= 100 else 2) for v in (with_, without)], padding=3)
    axis.set_yticks([])
    axis.margins(x=0.2, y=0.12)
    return figure


@style()
def sweep(
    xs: Sequence[float], series: Mapping[str, Sequence[float]], spread: Mapping[str, Sequence[float]] | None, xlabel: str
) -> "Figure":
    """A panel per series against what was varied (`xlabel`), with error bars (`spread`, over seeds)."""
    figure, axes = panels(*(key.replace("_", " ").capitalize() for key in series), height=1.9)
    for axis, (key, values), color in zip(axes, series.items(), PALETTE * len(series)):
        error = (spread or {}).get(key)
        axis.errorbar(xs, values, yerr=error, fmt="o-", color=color, capsize=3, elinewidth=1)
        if "accuracy" in key.casefold():
            percent_axis(axis)
    if min(xs) > 0 and max(xs) / min(xs) >= 50:
        axes[-1].set_xscale("log")
        axes[-1].xaxis.set_major_formatter("{x:g}")
        axes[-1].minorticks_off()
    axes[-1].set_xlabel(xlabel)
    return figure


def _records(run: Run, key: str) -> Sequence[Mapping[str, object]]:
    value: Any = run.get(key)
    return value or []


def _series(records: Sequence[Mapping[str, object]], x: str, y: str) -> tuple[list[Any], list[float]]:
    """The points of which both numbers are known, thinned; the last one stays."""
    points = [(r[x], value) for r in records if r.get(x) is not None and (value := finite(r.get(y))) is not None]
    stride = math.ceil(len(points) / POINTS) or 1
    points = points[::-1][::stride][::-1]
    return [a for a, _ in points], [b for _, b in points]


def _shares(histogram: object) -> list[float]:
    values: Any = histogram
    return [finite(value) or 0.0 for value in values or []]


def _line(look: Look) -> dict[str, Any]:
    return {"color": look.color, "marker": look.marker, "linestyle": look.dash}


def _bars_and_prior(axis: "Axes", shares: Sequence[float], prior: Sequence[float] | None, color: str) -> None:
    # paler under a line, which would be lost on the full colour
    axis.bar(range(1, len(shares) + 1), shares, width=0.8, color=color, alpha=1 if prior is None else 0.5, label="halted")
    if prior is not None:
        axis.plot(range(1, len(prior) + 1), prior, ".-", color=INK, linewidth=1.2, label="prior")


def _unbeaten(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Those (steps, accuracy) that no other point equals or betters in fewer steps."""
    best: list[tuple[float, float]] = []
    for steps, accuracy in sorted(points, key=lambda point: (point[0], -point[1])):
        if not best or accuracy > best[-1][1]:
            best.append((steps, accuracy))
    return best


def percent_axis(axis: "Axes") -> None:
    """Percentages, with no room for what is above 100."""
    low, high = axis.dataLim.intervaly if math.isfinite(axis.dataLim.y0) else (0.0, 1.0)
    span = max(high - low, 0.02)
    axis.set_ylim(max(0.0, low - 0.08 * span), min(1.0, high) + 0.06 * span)
    axis.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.6g}{NBSP}%")


def _steps_axis(axis: "Axes") -> None:
    axis.set_ylim(bottom=0)
    axis.locator_params(axis="y", nbins=5, integer=True)


def _batches_axis(axis: "Axes") -> None:
    axis.xaxis.set_major_formatter("{x:,.0f}")
    axis.locator_params(axis="x", nbins=5)
    axis.set_xlabel("Batch")


def whole_numbers(axis: "Axes") -> None:
    """Ticks at whole steps and difficulties only; names, where difficulties are named, stay."""
    from matplotlib.ticker import AutoLocator, MaxNLocator

    if isinstance(axis.xaxis.get_major_locator(), AutoLocator):
        axis.xaxis.set_major_locator(MaxNLocator(nbins=11, integer=True))
