"""The examples of a report with the fewest and with the most steps."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ponderosa.measure.coloured import coloured
from ponderosa.measure.figure import Run, looks
from ponderosa.measure.formatting import decimal, finite

TITLES = {"fewest": "Fewest steps", "most": "Most steps"}


def examples(runs: Sequence[Run]) -> str:
    """The section, where any run shows examples: of those that adapt."""
    parts = [_of_run(run, look.label) for run, look in zip(runs, looks(runs)) if run.get("extremes") and _adapts(run)]
    if not parts:
        return ""
    return f"<section>\n<h3>Easy and hard examples</h3>\n{''.join(parts)}</section>"


def _adapts(run: Run) -> bool:
    """Whether its examples do not all halt at the same step."""
    shares: Any = run.get("histogram")
    return bool(shares) and max(shares) < 1


def _of_run(run: Run, name: str) -> str:
    found: Any = run["extremes"]
    limit = int(finite(run.get("max_steps")) or 1)
    lists = "".join(
        f'<div><h4>{TITLES[kind]}</h4>\n<ul class="examples">\n{"".join(_example(one, limit) for one in chosen)}</ul></div>\n'
        for kind, chosen in found.items()
    )
    return f'<h4 class="run">{escape(name)}</h4>\n<div class="extremes">\n{lists}</div>\n'


def _example(one: Mapping[str, Any], limit: int) -> str:
    mark = '<span class="right">right</span>' if one["right"] else '<span class="wrong">wrong</span>'
    steps, answer, target = decimal(one["mean_steps"]), escape(one["answer"]), escape(one["target"])
    said = f"answer {answer}, {mark}" if one["right"] else f"answer {answer}, {mark} (target {target})"
    return f"<li>{_input(one, limit)}<small>{steps} steps · {said}</small></li>\n"


def _input(one: Mapping[str, Any], limit: int) -> str:
    """The picture, or the words, coloured by depth where each has its own."""
    if one.get("picture"):
        return one["picture"]
    words, steps = one["words"], one["steps"]
    if isinstance(steps, list) and len(steps) == len(words):
        return coloured(words, steps, limit)
    return f'<p class="words">{escape(" ".join(words))}</p>'
