"""The page: what a comparison or a report found, put together."""

import os
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from ponderosa.measure import html
from ponderosa.measure.figure import Run, looks
from ponderosa.measure.formatting import NBSP, decimal, plain
from ponderosa.measure.report.comparison import comparison
from ponderosa.measure.report.examples import examples
from ponderosa.measure.report.figures import figures
from ponderosa.measure.report.spending import spending, unfair
from ponderosa.measure.verdict import collapse, verdict

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
    "HaltingUnit": "names the number of steps before the first one, by a classifier trained on the step that was right.",
    "RandomDepth": "was trained to be right after any of several numbers of steps; takes every step.",
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
    """The page as HTML; the same result gives the same text.

    `result` has a title, the command and the environment, and either `runs` on one `task` or `parts`, each with its own.
    """
    parts: Sequence[Mapping[str, Any]] = result.get("parts") or [result]
    runs = [run for part in parts for run in part.get("runs") or []]
    return Template(_resource("page.html")).substitute(
        css=_resource("page.css"),
        title=escape(plain(result.get("title") or "Adaptive depth: a comparison")),
        parts="\n".join(_part(part, number) for number, part in enumerate(parts)),
        mechanisms=_mechanisms(runs),
        made=_made(result, runs),
    )


def _part(part: Mapping[str, Any], number: int) -> str:
    """All about the runs on one task."""
    runs: list[Run] = list(part.get("runs") or [])
    found = [
        f"<h2>{escape(_options(part.get('task')))}</h2>",
        f'<p class="verdict">{escape(plain(part.get("verdict") or verdict(runs)))}</p>',
        *(_warning(run, reason) for run in runs if (reason := collapse(run) or unfair(run))),
        *(_note(run) for run in runs if run.get("note")),
        f"<section>\n<h3>The comparison</h3>\n{comparison(runs)}\n</section>",
        figures(runs, number),
        spending(runs),
        examples(runs),
    ]
    return "\n".join(piece for piece in found if piece)


def _resource(name: str) -> str:
    return resources.files("ponderosa.measure.report").joinpath(name).read_text(encoding="utf-8")


def _options(task: Mapping[str, object] | None) -> str:
    if not task:
        return "The networks"
    options = dict(task)
    name = plain(options.pop("name", None))
    return " · ".join([name, *(f"{key.replace('_', ' ')}{NBSP}{plain(value)}" for key, value in options.items())])


def _warning(run: Run, reason: str) -> str:
    return f'<p class="warning"><strong>{html.text(run.get("name"))}</strong>: {html.text(reason)}</p>'


def _note(run: Run) -> str:
    return f'<p class="note"><strong>{html.text(run.get("name"))}</strong>: {html.text(run.get("note"))}</p>'


def _mechanisms(runs: Sequence[Run]) -> str:
    """A line for each mechanism in use, compositions taken apart."""
    used = " ".join(f"{run.get('name')} {run.get('halting')}" for run in runs)
    return html.definitions({name: line for name, line in MECHANISMS.items() if re.search(rf"\b{name}\b", used)}, "mechanisms")


def _made(result: Mapping[str, Any], runs: Sequence[Run]) -> str:
    command = result.get("command")
    shown = {key: head for key, head in DETAILS.items() if any(run.get(key) is not None for run in runs)}
    rows = [[escape(look.label), *(_detail(run, key) for key in shown)] for run, look in zip(runs, looks(runs))]
    parts = [
        f"<pre><code>{escape(str(command))}</code></pre>" if command else "",
        html.definitions(result.get("environment") or {}, "environment"),
        html.definitions({f"{run['name']} by": run["trained_by"] for run in runs if run.get("trained_by")}, "environment"),
        html.table(["Run", *shown.values()], rows, "Each run in detail") if shown else "",
    ]
    return "\n".join(part for part in parts if part)


def _detail(run: Run, key: str) -> str:
    if key == "folder":
        return f'<span class="path">{html.text(run.get(key))}</span>'
    return decimal(run.get(key), 0) if key in COUNTS else html.text(run.get(key))
