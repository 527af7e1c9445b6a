"""The figures of a comparison and of a reproduction. Each function gives a matplotlib `Figure`; `svg` and `save_png` write it.

`runs` are dicts as in the report (see `ponderosa.measure.report`): what is missing is left out of the figure.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ponderosa.measure.axes import POINTS, batches_axis, line, percent_axis, records, series, steps_axis, whole_numbers
from ponderosa.measure.cost_plots import frontier, speed_by_batch_size
from ponderosa.measure.figure import INK, PALETTE, Run, legend, looks, panels, save_png, short, style, svg
from ponderosa.measure.formatting import decimal, finite, percent, quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "POINTS", "distribution_against_prior", "frontier", "halting_distribution", "losses", "percent_axis",
    "save_png", "speed_by_batch_size", "steps_by_difficulty", "svg", "sweep", "total_steps", "training_curves",
    "whole_numbers",
]  # fmt: skip


@style()
def training_curves(runs: Sequence[Run]) -> "Figure":
    """Accuracy and mean steps over the batches of training; validation, where there is any, on top of training."""
    figure, (accuracy, steps) = panels("Accuracy", "Mean steps")
    entries = looks(runs)
    for run, look in zip(runs, entries):
        curve = records(run, "curve")
        validation = series(curve, "batch", "validation_accuracy")
        accuracy.plot(*series(curve, "batch", "accuracy"), look.dash, color=look.color, alpha=0.35 if validation[0] else 1)
        accuracy.plot(*validation, look.dash, color=look.color)
        steps.plot(*series(curve, "batch", "steps"), look.dash, color=look.color)
    percent_axis(accuracy)
    steps_axis(steps)
    batches_axis(steps)
    legend(figure, entries)
    return figure


@style()
def steps_by_difficulty(runs: Sequence[Run]) -> "Figure":
    """Mean steps and accuracy of the examples of each difficulty."""
    figure, (steps, accuracy) = panels("Mean steps", "Accuracy")
    entries = looks(runs)
    for run, look in zip(runs, entries):
        rows = records(run, "by_difficulty")
        steps.plot(*series(rows, "difficulty", "steps"), **line(look))
        accuracy.plot(*series(rows, "difficulty", "accuracy"), **line(look))
    steps_axis(steps)
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
        axis.plot(*series(curve, "batch", key), color=color)
    batches_axis(axes[-1])
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


def _shares(histogram: object) -> list[float]:
    values: Any = histogram
    return [finite(value) or 0.0 for value in values or []]


def _bars_and_prior(axis: "Axes", shares: Sequence[float], prior: Sequence[float] | None, color: str) -> None:
    # paler under a line, which would be lost on the full colour
    axis.bar(range(1, len(shares) + 1), shares, width=0.8, color=color, alpha=1 if prior is None else 0.5, label="halted")
    if prior is not None:
        axis.plot(range(1, len(prior) + 1), prior, ".-", color=INK, linewidth=1.2, label="prior")
