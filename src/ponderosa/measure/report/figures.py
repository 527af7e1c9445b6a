"""The figures of a report, each with a sentence that says how to read it."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ponderosa.measure import plots
from ponderosa.measure.figure import Run
from ponderosa.measure.formatting import finite

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Plot = Callable[[Sequence[Run]], "Figure"]

SWEPT = (
    "Each line is one trained network at all settings of its halting, from few steps to many, without training again; the "
    "large marker is the network as it is. The band holds the accuracy in 95 of 100 resamplings. Up and to the left is better. "
    "What is right less often than the accuracy axis begins at is not shown."
)
FIGURES: tuple[tuple[str, str, str, Plot], ...] = (
    ("frontier", "Accuracy and steps", SWEPT, plots.frontier),
    ("frontier", "Accuracy and operations", "The same networks; operations are counted, and they include what halting itself "
     "costs.", partial(plots.frontier, cost="operations")),
    ("frontier", "Accuracy and time", "The same networks; time is measured on the machine named below, in batches of up to "
     "256 examples.", partial(plots.frontier, cost="microseconds")),
    ("by_batch_size", "Speed by batch size", "How many times sooner the answers come than with every step taken. Dotted: no "
     "gain.", plots.speed_by_batch_size),
    ("curve", "Training", "How accuracy and depth developed. Where a run was validated, the strong line is validation, "
     "the faint one training.", plots.training_curves),
    ("by_difficulty", "Steps by difficulty", "A mechanism that adapts spends more steps on harder examples, and loses no "
     "accuracy on them.", plots.steps_by_difficulty),
    ("histogram", "Where examples halt", "The share of examples that halted at each step. Each strip is scaled to its own "
     "tallest bar.", plots.halting_distribution),
    ("mean_steps", "Accuracy and depth", "Up and to the left is better. The dotted line joins the runs that no other run "
     "beats in both.", plots.frontier),
)  # fmt: skip


def figures(runs: Sequence[Run], part: int) -> str:
    """All figures that the runs have something to show in; `part` keeps the ids of several parts of a page apart."""
    entries = [entry for entry in FIGURES if any(_known(run.get(entry[0])) for run in runs)]
    if entries and entries[0][0] == "frontier":
        entries = [entry for entry in entries if entry[0] != "mean_steps"]  # the markers are in the frontier
    drawn = [_figure(*entry, runs, f"figure-{part}-{i}") for i, entry in enumerate(entries)]
    return f'<section class="figures">\n{"".join(drawn)}</section>' if drawn else ""


def _known(value: object) -> bool:
    return bool(value) if isinstance(value, (list, dict)) else finite(value) is not None


def _figure(key: str, title: str, caption: str, plot: Plot, runs: Sequence[Run], name: str) -> str:
    svg = plots.svg(plot(runs), name=name).replace("<svg ", f'<svg role="img" aria-label="{title}" ', 1)
    return f"<figure>\n<h3>{title}</h3>\n<figcaption>{caption}</figcaption>\n{svg}</figure>\n"
