"""Examples as pictures: in the order of their steps, the easiest and hardest of each class, and the depths of tokens.

Each example is drawn by its task (`Task.draw`), so that any task can have a gallery.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from ponderosa.measure.figure import WIDTH, style
from ponderosa.tasks.base import Batch, Task
from ponderosa.tree import Tree, tree_map

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIDE = 0.55  # inches, of one example


@style()
def in_order(task: Task, x: Tree, steps: Tensor, *, columns: int = 8, rows: int = 5) -> "Figure":
    """Examples from the fewest steps to the most, picked evenly; above each its number of steps."""
    order = steps.argsort(stable=True)
    places = [round(i * (len(order) - 1) / (columns * rows - 1)) for i in range(columns * rows)]
    figure, axes = _grid(rows, columns)
    for axis, row in zip([axis for line in axes for axis in line], order[places].tolist()):
        _draw(task, axis, x, row, f"{float(steps[row]):.3g}")
    return figure


@style()
def extremes(task: Task, batch: Batch, steps: Tensor, names: Sequence[str], *, each: int = 4) -> "Figure":
    """A line for each class: its examples with the fewest steps on the left, those with the most on the right."""
    figure, axes = _grid(len(names), 2 * each, left=0.16)
    for label, (name, line) in enumerate(zip(names, axes)):
        of_class = (batch.y == label).nonzero()[:, 0]
        order = of_class[steps[of_class].argsort(stable=True)].tolist()
        for axis, row in zip(line, order[:each] + order[-each:]):
            _draw(task, axis, batch.x, row, f"{float(steps[row]):.3g}")
        line[0].text(-0.1, 0.5, name, transform=line[0].transAxes, ha="right", va="center", fontsize=7)
    return figure


@style()
def token_depths(task: Task, x: Tree, depths: Tensor, *, columns: int = 8) -> "Figure":
    """Examples, and below each the same with the depths `[example, token]` of its tokens drawn over it."""
    shown = min(columns, len(depths))
    figure, axes = _grid(2, shown)
    for row in range(shown):
        _draw(task, axes[0][row], x, row, f"{float(depths[row].float().mean()):.3g}")
        _draw(task, axes[1][row], x, row, "", depths[row])
    return figure


def _grid(rows: int, columns: int, left: float = 0.01) -> tuple["Figure", list[list["Axes"]]]:
    from matplotlib.figure import Figure

    # no layout engine: with this many axes it takes its time, and the room that titles and names need is known
    figure = Figure(figsize=(max(WIDTH, SIDE * columns), (SIDE + 0.16) * rows))
    figure.subplots_adjust(left=left, right=0.99, bottom=0.01, top=1 - 0.16 / (SIDE + 0.16) / rows, wspace=0.08, hspace=0.3)
    return figure, figure.subplots(rows, columns, squeeze=False).tolist()


def _draw(task: Task, axis: "Axes", x: Tree, row: int, title: str, depths: Tensor | None = None) -> None:
    task.draw(axis, tree_map(lambda leaf: leaf[row], x), depths)
    axis.set_title(title, loc="center", fontsize=7, fontweight="normal", pad=2)
