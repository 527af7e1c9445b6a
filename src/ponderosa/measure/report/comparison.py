"""The table of a report: accuracy, steps, operations and time of each run."""

from collections.abc import Sequence
from html import escape
from typing import Any

from ponderosa.measure import html
from ponderosa.measure.figure import INK, Run, baseline, is_fixed, looks
from ponderosa.measure.formatting import DASH, NBSP, TIMES, decimal, duration, finite, percent, quantity, ratio
from ponderosa.measure.verdict import saving, speed_up


def comparison(runs: Sequence[Run]) -> str:
    """A row for each run."""
    base = baseline(runs)
    heads = ["Mechanism", "Accuracy", "Mean steps", "Operations<small>per example</small>", "Time<small>per example</small>"]
    rows = [_row(run, look.label, look.color, run is base) for run, look in zip(runs, looks(runs))]
    if any(run.get("frontier") for run in runs):
        heads.append("Area<small>under the frontier</small>")
        rows = [[*row, _area(run)] for row, run in zip(rows, runs)]
    heads.append("Training")
    rows = [[*row, duration(run.get("train_seconds"))] for row, run in zip(rows, runs)]
    return html.table(heads, rows, "Accuracy, steps, operations and time of each run")


def _row(run: Run, label: str, color: str, is_base: bool) -> list[str]:
    tint = "var(--soft)" if color == INK else color
    note = " (baseline)" if is_base else ""
    share, times = saving(run), speed_up(run)
    micro = finite(run.get("microseconds"))
    halting = html.text(run.get("halting")).replace("(", "(<wbr>")  # where a narrow page may break it
    return [
        f'<span class="swatch" style="color:{tint}"></span>{escape(label)}<small>{halting}{note}</small>',
        f"{percent(run.get('accuracy'))}{_seeds(run)}",
        _steps(run, tint),
        f"{quantity(run.get('operations'))}<small>{_saved(share)}</small>",
        f"{duration(None if micro is None else micro * 1e-6)}<small>{_faster(times)}</small>",
    ]


def _seeds(run: Run) -> str:
    seeds = finite(run.get("seeds")) or 1
    return f"<small>{seeds:g} seeds</small>" if seeds > 1 else ""


def _area(run: Run) -> str:
    """None for a fixed depth: a single point has no area under it."""
    front: Any = run.get("frontier")
    return decimal(front["area"], 3) if front and not is_fixed(run) else DASH


def _saved(share: float | None) -> str:
    if share is None:
        return DASH
    return f"{abs(share):.0%} {'saved' if share >= 0 else 'more'}".replace("%", f"{NBSP}%")


def _faster(times: float | None) -> str:
    return DASH if times is None else f"{times:.2f}{TIMES} its full depth"


def _steps(run: Run, tint: str) -> str:
    limit = finite(run.get("max_steps"))
    share = ratio(run.get("mean_steps"), limit)
    of = "" if limit is None else f" of {limit:g}"
    bar = "" if share is None else f'<span class="bar" style="color:{tint}"><i style="width:{min(share, 1):.1%}"></i></span>'
    return f"{decimal(run.get('mean_steps'))}{of}{bar}"
