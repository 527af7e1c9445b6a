"""Speed-up against batch size, with what was possible drawn in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ponderosa.measure.figure import MARKERS, PALETTE, Look, legend, panels, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES = ("skewed", "text", "uniform", "constant")


@style()
def speedup_by_batch(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """A panel for each network that was measured at several batch sizes; dotted: what the ideal reaches."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if not row["kind"]:
            groups.setdefault(f"{row['model']} {row['width']} wide, per {row['unit']}", []).append(row)
    chosen = {name: group for name, group in groups.items() if len({row["batch"] for row in group}) > 2}
    figure, axes = panels(*chosen, height=2.2)
    looks = [Look(spread, PALETTE[i], MARKERS[i], "-") for i, spread in enumerate(LINES)]
    for axis, group in zip(axes, chosen.values(), strict=True):
        shortest = min(row["length"] for row in group)
        for look in looks:
            line = sorted((r for r in group if r["spread"] == look.label and r["length"] == shortest), key=lambda r: r["batch"])
            if not line:
                continue
            batches = [r["batch"] for r in line]
            axis.plot(batches, [r["speedup"] for r in line], color=look.color, marker=look.marker)
            axis.plot(batches, [r["ideal_bound"] for r in line], color=look.color, linestyle=":")
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter("{x:g}")
        axis.set_ylabel("times full depth")
    axes[-1].set_xlabel("batch size (dotted: what is possible)")
    legend(figure, looks)
    return figure
