"""How every figure looks, and how it is written: matplotlib without its global state.

Neutral ink becomes the page's own text colour in the SVG, so that one figure suits light and dark pages.
"""

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ponderosa.measure.formatting import finite, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Run = Mapping[str, object]
Dash = Literal["-", "--", ":", "-."]

INK = "#6b7280"  # readable on white and on black, for a figure that stands alone
# Okabe and Ito's colours, moved until each stands out on white and on black
PALETTE = ("#2a6fbb", "#cf5510", "#14a37c", "#b84e98", "#d2a014", "#52b1e6")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES: tuple[Dash, ...] = ("-", "--", ":", "-.")
WIDTH = 4.2  # inches: narrow, so that the text keeps its size on a phone; wide pages put two side by side

STYLE: dict[str, object] = {
    "font.size": 9.5, "axes.titlesize": 10, "axes.labelsize": 9.5, "xtick.labelsize": 9, "ytick.labelsize": 9,
    "legend.fontsize": 9, "text.color": INK, "axes.labelcolor": INK, "axes.titlecolor": INK, "axes.edgecolor": INK,
    "xtick.color": INK, "ytick.color": INK, "grid.color": INK, "grid.alpha": 0.18, "grid.linewidth": 0.8,
    "axes.grid": True, "axes.axisbelow": True, "axes.titlelocation": "left", "axes.titleweight": "bold",
    "axes.spines.top": False, "axes.spines.right": False, "axes.spines.left": False, "axes.linewidth": 0.8,
    "xtick.major.size": 3, "ytick.major.size": 0, "lines.linewidth": 1.7, "lines.markersize": 5,
    "figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none", "legend.frameon": False,
    "text.parse_math": False,  # a run may be named "$x$"
    "svg.fonttype": "none",
}  # fmt: skip


@contextmanager
def style() -> Iterator[None]:
    """Draw in this module's style, whatever the user's own matplotlib settings are. Also a decorator."""
    try:
        from matplotlib import style as styles
    except ImportError as error:
        raise ImportError('plots need matplotlib, which is not installed: pip install "ponderosa[report]"') from error
    with styles.context(["default", STYLE]):
        yield


@dataclass(frozen=True)
class Look:
    """How one run is drawn in every figure."""

    label: str
    color: str
    marker: str
    dash: Dash


def looks(runs: Sequence[Run]) -> list[Look]:
    """A look for each run: fixed depths in ink, the others in the palette's order, then again with other dashes."""
    names = [plain(run.get("name")) for run in runs]
    result: list[Look] = []
    others = fixed = 0
    for run, name in zip(runs, names):
        label = f"{name} (seed {plain(run.get('seed'))})" if names.count(name) > 1 else name
        if is_fixed(run):
            result.append(Look(label, INK, MARKERS[fixed % len(MARKERS)], DASHES[fixed % len(DASHES)]))
            fixed += 1
            continue
        cycle, color = divmod(others, len(PALETTE))
        result.append(Look(label, PALETTE[color], MARKERS[(others + 1) % len(MARKERS)], DASHES[cycle % len(DASHES)]))
        others += 1
    return result


def baseline(runs: Sequence[Run]) -> Run | None:
    """The deepest run of fixed depth."""
    return max(filter(is_fixed, runs), key=lambda run: finite(run.get("max_steps")) or 0.0, default=None)


def is_fixed(run: Run) -> bool:
    """Whether its depth is fixed: it says so, or its name does ("Fixed", "Fixed 10")."""
    return not run["adaptive"] if "adaptive" in run else plain(run.get("name")).casefold().split()[:1] == ["fixed"]


def short(label: str, limit: int = 32) -> str:
    """A label cut in its middle: the ends of similar names differ most.

    >>> short("LAC with alpha 0.8 and a minimum of 3 steps")
    'LAC with alpha 0.8 and … 3 steps'
    """
    return label if len(label) <= limit else f"{label[: limit - 9]}…{label[-8:]}"


def panels(*titles: str, height: float = 1.9) -> tuple["Figure", list["Axes"]]:
    """A figure with one panel per title, one above the other, on a shared horizontal axis."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, 0.3 + height * len(titles)), layout="constrained")
    axes = list(figure.subplots(len(titles), sharex=True, squeeze=False)[:, 0])
    for axis, title in zip(axes, titles):
        axis.set_title(title)
        axis.grid(axis="x", visible=False)
    return figure, axes


def legend(figure: "Figure", entries: Sequence[Look]) -> None:
    """The runs below the figure, which grows by what they need."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=look.color, marker=look.marker, linestyle=look.dash) for look in entries]
    labels = [short(look.label) for look in entries]
    columns = max(1, min(4, len(labels), 55 // (max(map(len, labels)) + 7)))
    figure.set_figheight(figure.get_figheight() + 0.2 * -(-len(entries) // columns))
    figure.legend(handles, labels, loc="outside lower center", ncols=columns)


@style()
def svg(figure: "Figure", name: str = "figure") -> str:
    """The figure as an `<svg>` element; `name` keeps its ids apart from those of other figures on a page."""
    from matplotlib import rc_context

    buffer = io.StringIO()
    with rc_context({"svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]  # no prolog: it names a DTD on the web
    text = re.sub(r"\s*<style.*?</style>", "", text, flags=re.DOTALL)  # it would apply to the whole page
    text = re.sub(r' id="[^"]*_\d+"', "", text)  # the names of groups, the same in every figure
    text = text.replace("<svg ", f'<svg color="{INK}" stroke-linejoin="round" ', 1)
    head, body = text.split(">", 1)
    return f"{head}>{body.replace(INK, 'currentColor')}"


@style()
def save_png(figure: "Figure", path: Path | str) -> Path:
    """Write the figure as a PNG on white."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png", dpi=200, facecolor="white", metadata={"Software": None})
    return path
