"""Where the steps of each run went: over- and underthinking, regret, and the tables by class and by depth."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ponderosa.measure import html
from ponderosa.measure.figure import Run, looks
from ponderosa.measure.formatting import decimal, finite, percent

EXPLAINED = (
    "<p>An oracle that knew the targets would halt each example at the first step whose answer is right; its accuracy and "
    "the steps that a run takes beyond that step (<dfn>regret</dfn>; none for an example that halts before it, or is never "
    "right) say what better halting could still gain. With few classes, some first answers are right by luck. "
    "<dfn>Overthinking</dfn>: right at an earlier step, wrong in the end. "
    "<dfn>Underthinking</dfn>: wrong in the end, right at a later step. The rank correlation says whether harder examples get "
    "more steps (1: always). The calibration error says how far confidence is from accuracy (0: not at all).</p>"
)
UNFAIR = -0.2
"""A rank correlation of steps with difficulty below this is worth a warning."""
GROUP = {"examples": "Examples", "accuracy": "Accuracy", "steps": "Mean steps", "first_right": "First right step"}


def unfair(run: Run) -> str | None:
    """What is wrong if harder examples get fewer steps."""
    spent: Any = run.get("allocation") or {}
    follows = finite(spent.get("fairness"))
    if follows is None or follows > UNFAIR:
        return None
    return f"it spends fewer steps on harder examples (rank correlation {follows:.2f})"


def spending(runs: Sequence[Run]) -> str:
    """The section, where any run has been looked at so."""
    known: list[tuple[Any, str]] = [
        (run["allocation"], look.label) for run, look in zip(runs, looks(runs)) if run.get("allocation")
    ]
    if not known:
        return ""
    heads = [
        "Run", "Oracle<small>accuracy</small>", "Regret<small>steps</small>", "Overthinking", "Underthinking",
        "Steps and difficulty<small>rank correlation</small>", "Calibration error",
    ]  # fmt: skip
    rows = [
        [
            escape(name), percent(spent["oracle_accuracy"]), decimal(spent["regret"], 2), percent(spent["overthinking"]),
            percent(spent["underthinking"]), decimal(spent["fairness"], 2), decimal(spent["calibration_error"], 3),
        ]
        for spent, name in known
    ]  # fmt: skip
    details = "\n".join(_details(spent, name) for spent, name in known)
    return (
        f"<section>\n<h3>Where the steps went</h3>\n{EXPLAINED}\n{html.table(heads, rows, 'Allocation')}\n{details}\n</section>"
    )


def _details(spent: Mapping[str, Any], name: str) -> str:
    """The tables of one run, folded."""
    tables = [
        _table(spent["by_depth"], {"step": "Halted at step", **GROUP, "calibration_error": "Calibration error"}),
        _table(spent["by_class"], {"class": "Class", **GROUP}),
    ]
    body = "\n".join(table for table in tables if table)
    return f"<details>\n<summary>{escape(name)} by step and by class</summary>\n{body}\n</details>" if body else ""


def _table(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> str:
    shown = {key: head for key, head in columns.items() if any(row.get(key) is not None for row in rows)}
    cells = [[_cell(key, row.get(key)) for key in shown] for row in rows]
    return html.table(shown.values(), cells, "By " + next(iter(columns.values())).lower()) if rows else ""


def _cell(key: str, value: object) -> str:
    if key == "accuracy":
        return percent(value)
    if key in ("steps", "first_right"):
        return decimal(value, 2)
    return decimal(value, 3) if key == "calibration_error" else html.text(value)
