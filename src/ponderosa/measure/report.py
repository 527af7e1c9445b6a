"""The report of a comparison: one HTML file that needs nothing else."""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from ponderosa.measure import plots
from ponderosa.measure.figure import INK, Run, baseline, looks
from ponderosa.measure.formatting import DASH, NBSP, TIMES, decimal, duration, finite, percent, plain, quantity, ratio
from ponderosa.measure.verdict import collapse, saving, speed_up, verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Plot = Callable[[Sequence[Run]], "Figure"]

FIGURES: tuple[tuple[str, str, str, Plot], ...] = (
    ("curve", "Training", "How accuracy and depth developed. Where a run was validated, the strong line is validation, "
     "the faint one training.", plots.training_curves),
    ("by_difficulty", "Steps by difficulty", "A mechanism that adapts spends more steps on harder examples, and loses no "
     "accuracy on them.", plots.steps_by_difficulty),
    ("histogram", "Where examples halt", "The share of examples that halted at each step. Each strip is scaled to its own "
     "tallest bar.", plots.halting_distribution),
    ("mean_steps", "Accuracy and depth", "Up and to the left is better. The dotted line joins the runs that no other run "
     "beats in both.", plots.frontier),
)  # fmt: skip

MECHANISMS = {
    "Fixed": "takes every step for every example: the baseline.",
    "ACT": "adds up a learned halting value and stops when the sum reaches 1; the answer is a weighted mean over the steps, "
    "and training charges for each step.",
    "PonderNet": "learns the probability of stopping at each step; training weighs each step's loss by it and keeps it near "
    "a chosen prior.",
    "LAC": "stops when the size (the L2 norm) of the state hardly grows any more; nothing is learned.",
    "ConfidenceExit": "stops at the first step whose own answer is confident enough.",
    "EntropyExit": "stops at the first step whose own answer is certain enough, by its entropy.",
    "PatienceExit": "stops when the answer has stayed the same for several steps.",
    "PlannedDepth": "fixes the number of steps before the first one, from the input.",
    "AnyOf": "stops as soon as one of several mechanisms says so.",
    "Bounded": "holds a mechanism between a minimum and a maximum number of steps.",
}
DETAILS = {"parameters": "Parameters", "batches": "Batches", "examples": "Test examples", "seed": "Seed", "folder": "Folder"}
COUNTS = ("parameters", "batches", "examples")


def write_report(result: Mapping[str, Any], path: Path | str) -> Path:
    """Write the report of `result` to `path`; a file already there is replaced at once or, on an error, kept."""
    path = Path(path)
    page = render(result)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        draft.write_text(page, encoding="utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return path


def render(result: Mapping[str, Any]) -> str:
    """The report as HTML; the same result gives the same text."""
    runs: list[Run] = list(result.get("runs") or [])
    return Template(_resource("report.html")).substitute(
        css=_resource("report.css"),
        title=escape(plain(result.get("title") or "Adaptive depth: a comparison")),
        task=escape(_options(result.get("task"))),
        verdict=escape(plain(result.get("verdict") or verdict(runs))),
        warnings="\n".join(_warning(run) for run in runs if collapse(run)),
        comparison=_comparison(runs),
        figures=_figures(runs),
        mechanisms=_mechanisms(runs),
        made=_made(result, runs),
    )


def _resource(name: str) -> str:
    return resources.files("ponderosa.measure").joinpath(name).read_text(encoding="utf-8")


def _options(task: Mapping[str, object] | None) -> str:
    if not task:
        return ""
    options = dict(task)
    name = plain(options.pop("name", None))
    return " · ".join([name, *(f"{key.replace('_', ' ')}{NBSP}{plain(value)}" for key, value in options.items())])


def _warning(run: Run) -> str:
    return f'<p class="warning"><strong>{_text(run.get("name"))}</strong>: {_text(collapse(run))}</p>'


def _comparison(runs: Sequence[Run]) -> str:
    base = baseline(runs)
    heads = ["Mechanism", "Accuracy", "Mean steps", "Operations<small>per example</small>", "Time<small>per example</small>"]
    rows = [_row(run, look.label, look.color, run is base) for run, look in zip(runs, looks(runs))]
    return _table([*heads, "Training"], rows, "Accuracy, steps, operations and time of each run")


def _row(run: Run, label: str, color: str, is_base: bool) -> list[str]:
    tint = "var(--soft)" if color == INK else color
    note = " (baseline)" if is_base else ""
    share, times = saving(run), speed_up(run)
    micro = finite(run.get("microseconds"))
    halting = _text(run.get("halting")).replace("(", "(<wbr>")  # where a narrow page may break it
    return [
        f'<span class="swatch" style="color:{tint}"></span>{escape(label)}<small>{halting}{note}</small>',
        percent(run.get("accuracy")),
        _steps(run, tint),
        f"{quantity(run.get('operations'))}<small>{_saved(share)}</small>",
        f"{duration(None if micro is None else micro * 1e-6)}<small>{_faster(times)}</small>",
        duration(run.get("train_seconds")),
    ]


def _saved(share: float | None) -> str:
    if share is None:
        return DASH
    return f"{abs(share):.0%} {'saved' if share >= 0 else 'more'}".replace("%", f"{NBSP}%")


def _faster(times: float | None) -> str:
    return DASH if times is None else f"{times:.2f}{TIMES} as fast"


def _steps(run: Run, tint: str) -> str:
    limit = finite(run.get("max_steps"))
    share = ratio(run.get("mean_steps"), limit)
    of = "" if limit is None else f" of {limit:g}"
    bar = "" if share is None else f'<span class="bar" style="color:{tint}"><i style="width:{min(share, 1):.1%}"></i></span>'
    return f"{decimal(run.get('mean_steps'))}{of}{bar}"


def _figures(runs: Sequence[Run]) -> str:
    drawn = [_figure(*entry, runs) for entry in FIGURES if any(_known(run.get(entry[0])) for run in runs)]
    return f'<section class="figures">\n{"".join(drawn)}</section>' if drawn else ""


def _known(value: object) -> bool:
    return bool(value) if isinstance(value, list) else finite(value) is not None


def _figure(key: str, title: str, caption: str, plot: Plot, runs: Sequence[Run]) -> str:
    svg = plots.svg(plot(runs), name=key).replace("<svg ", f'<svg role="img" aria-label="{title}" ', 1)
    return f"<figure>\n<h2>{title}</h2>\n<figcaption>{caption}</figcaption>\n{svg}</figure>\n"


def _mechanisms(runs: Sequence[Run]) -> str:
    """A line for each mechanism in use, compositions taken apart."""
    used = " ".join(f"{run.get('name')} {run.get('halting')}" for run in runs)
    return _list({name: line for name, line in MECHANISMS.items() if re.search(rf"\b{name}\b", used)}, "mechanisms")


def _made(result: Mapping[str, Any], runs: Sequence[Run]) -> str:
    command = result.get("command")
    shown = {key: head for key, head in DETAILS.items() if any(run.get(key) is not None for run in runs)}
    rows = [[escape(look.label), *(_detail(run, key) for key in shown)] for run, look in zip(runs, looks(runs))]
    parts = [
        f"<pre><code>{escape(str(command))}</code></pre>" if command else "",
        _list(result.get("environment") or {}, "environment"),
        _table(["Run", *shown.values()], rows, "Each run in detail") if shown else "",
    ]
    return "\n".join(part for part in parts if part)


def _detail(run: Run, key: str) -> str:
    return decimal(run.get(key), 0) if key in COUNTS else _text(run.get(key))


def _table(heads: Iterable[str], rows: Iterable[Sequence[str]], label: str) -> str:
    """A table that scrolls on its own, by keyboard too; cells are HTML."""
    head = "".join(f'<th scope="col">{cell}</th>' for cell in heads)
    body = "\n".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>' for first, *rest in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>"
    )


def _list(entries: Mapping[str, object], kind: str) -> str:
    items = "\n".join(f"<dt>{escape(str(key))}</dt><dd>{_text(value)}</dd>" for key, value in entries.items())
    return f'<dl class="{kind}">\n{items}\n</dl>' if items else ""


def _text(value: object) -> str:
    return escape(plain(value))
