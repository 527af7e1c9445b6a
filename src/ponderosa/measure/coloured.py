"""A sentence with its words coloured by depth, as HTML and as a picture."""

from collections.abc import Sequence
from html import escape
from string import Template
from typing import TYPE_CHECKING

from ponderosa.measure.figure import INK, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE = Template("""<!doctype html><html lang="en"><meta charset="utf-8"><title>$title</title>
<style>body{font:16px/2 sans-serif;max-width:50em;margin:2em auto}b{font-weight:normal;padding:.15em .3em;border-radius:.3em}
sub{opacity:.6}h2{font-size:1em}</style>
<h1>$title</h1>$body</html>
""")


def coloured(words: Sequence[str], depths: Sequence[int], layers: int) -> str:
    """One line of words: the darker, the deeper; the number below is the depth."""
    parts = []
    for word, depth in zip(words, depths, strict=True):
        light, ink = _shade(depth, layers)
        parts.append(f'<b style="background:hsl(205 70% {light:.0f}%);color:{ink}">{escape(word)}<sub>{depth}</sub></b>')
    return f"<p>{' '.join(parts)}</p>"


def _shade(depth: int, layers: int) -> tuple[float, str]:
    """How light a word's ground is, in percent, and the ink on it."""
    light = 97 - 55 * (depth - 1) / max(layers - 1, 1)
    return light, "#fff" if light < 60 else "#000"


def page(title: str, lines: Sequence[tuple[str, str]]) -> str:
    """A page of coloured lines, each under its own heading."""
    body = "\n".join(f"<h2>{escape(heading)}</h2>\n{line}" for heading, line in lines)
    return PAGE.substitute(title=escape(title), body=body)


@style()
def draw(lines: Sequence[tuple[str, Sequence[str], Sequence[int]]], layers: int, width: int = 84) -> "Figure":
    """Headings with their words and depths, as a picture: `width` letters in a row."""
    from colorsys import hls_to_rgb

    from matplotlib.figure import Figure

    placed: list[tuple[int, int, str, int]] = []
    row = 0
    for heading, words, depths in lines:
        placed.append((row, 0, heading, 0))
        row, column = row + 1, 0
        for word, depth in zip(words, depths, strict=True):
            length = len(word) + 4
            if column + length > width:
                row, column = row + 1, 0
            placed.append((row, column, word, depth))
            column += length
        row += 2
    figure = Figure(figsize=(8.4, 0.3 * row))
    for line, column, word, depth in placed:
        light, ink = _shade(max(depth, 1), layers)
        box = {"boxstyle": "round,pad=0.2", "facecolor": hls_to_rgb(205 / 360, light / 100, 0.7), "edgecolor": "none"}
        figure.text(
            0.01 + 0.98 * column / width, 1 - (line + 0.7) / row, f"{word} {depth}" if depth else word, family="monospace",
            fontsize=7.5, color=ink if depth else INK, bbox=box if depth else None, weight="normal" if depth else "bold",
        )  # fmt: skip
    return figure
