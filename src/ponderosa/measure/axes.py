"""What figures share: points of records, and axes for accuracies, steps and batches."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ponderosa.measure.figure import Look, Run
from ponderosa.measure.formatting import NBSP, finite

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 300  # of a curve: more than a figure can show, and a report stays small


def records(run: Run, key: str) -> Sequence[Mapping[str, object]]:
    """The rows that a run has under a key, if any."""
    value: Any = run.get(key)
    return value or []


def series(records: Sequence[Mapping[str, object]], x: str, y: str) -> tuple[list[Any], list[float]]:
    """The points of which both numbers are known, thinned; the last one stays."""
    points = [(r[x], value) for r in records if r.get(x) is not None and (value := finite(r.get(y))) is not None]
    stride = math.ceil(len(points) / POINTS) or 1
    points = points[::-1][::stride][::-1]
    return [a for a, _ in points], [b for _, b in points]


def line(look: Look) -> dict[str, Any]:
    """How a run's line is drawn."""
    return {"color": look.color, "marker": look.marker, "linestyle": look.dash}


def percent_axis(axis: "Axes", least: float = 0.0) -> None:
    """Percentages, with no room for what is above 100 or far below `least`; an axis that does not begin at 0 says so."""
    low, high = axis.dataLim.intervaly if math.isfinite(axis.dataLim.y0) else (0.0, 1.0)
    low = max(low, least)
    span = max(high - low, 0.02)
    bottom = max(0.0, low - 0.08 * span)
    axis.set_ylim(bottom, min(1.0, high) + 0.06 * span)
    if bottom > 0:
        axis.set_title(f"axis from {100 * bottom:.3g}{NBSP}%", loc="right", fontweight="normal", fontsize=9)
    axis.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.6g}{NBSP}%")


def steps_axis(axis: "Axes") -> None:
    """Numbers of steps, from 0."""
    axis.margins(y=0.08)  # no marker is cut
    axis.set_ylim(bottom=0)
    axis.locator_params(axis="y", nbins=5, integer=True)


def batches_axis(axis: "Axes") -> None:
    """Batches of training."""
    axis.xaxis.set_major_formatter("{x:,.0f}")
    axis.locator_params(axis="x", nbins=5)
    axis.set_xlabel("Batch")


def whole_numbers(axis: "Axes") -> None:
    """Ticks at whole steps and difficulties only; names, where difficulties are named, stay."""
    from matplotlib.ticker import AutoLocator, MaxNLocator

    if isinstance(axis.xaxis.get_major_locator(), AutoLocator):
        axis.xaxis.set_major_locator(MaxNLocator(nbins=11, integer=True))
