"""Tables for a terminal and for Markdown."""

import math
import re
from collections.abc import Mapping, Sequence
from numbers import Integral, Real

from ponderosa.measure.formatting import plain

Row = Mapping[str, object]
NUMERIC = re.compile(r"[-+<>~\u2212\u2248\u00b1]?\s?\d")  # how a string that was formatted from a number begins


def table(rows: Sequence[Row], columns: Mapping[str, str]) -> str:
    """Aligned plain text: one line per row, `columns` maps keys to headings in order.

    Numbers are right-aligned, floats of a column share their decimals, strings are kept as they are.

    >>> print(table([{"name": "LAC", "steps": 3.25}, {"name": "Fixed", "steps": 10.0}], {"name": "", "steps": "Steps"}))
           Steps
    -----  -----
    LAC     3.25
    Fixed  10.00
    """
    lines, right = grid(rows, columns)
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    lines = [[_align(cell, width, r) for cell, width, r in zip(line, widths, right)] for line in lines]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join("  ".join(line).rstrip() for line in lines)


def markdown(rows: Sequence[Row], columns: Mapping[str, str]) -> str:
    """The same table for Markdown.

    >>> print(markdown([{"name": "LAC", "steps": 3.125}], {"name": "Name", "steps": "Steps"}))
    | Name | Steps |
    | --- | ---: |
    | LAC | 3.125 |
    """
    lines, right = grid(rows, columns)
    lines = [[cell.replace("|", r"\|") for cell in line] for line in lines]
    lines.insert(1, ["---:" if r else "---" for r in right])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def grid(rows: Sequence[Row], columns: Mapping[str, str]) -> tuple[list[list[str]], list[bool]]:
    """The heading and the rows as text, and which columns are right-aligned."""
    values = [[row.get(key) for row in rows] for key in columns]
    texts = [_column(column) for column in values]
    return [list(columns.values()), *map(list, zip(*texts))], [_is_numeric(column) for column in values]


def _column(values: Sequence[object]) -> list[str]:
    """The cells of one column; its floats are shown with one number of decimals, so that their points line up."""
    floats = [abs(v) for v in values if isinstance(v, float) and math.isfinite(v)]
    digits = max(0, 3 - int(math.log10(max(max(floats, default=1.0), 1.0))))
    tiny = any(0 < v < 0.5 * 10**-digits for v in floats)  # would be shown as zero

    def cell(value: object) -> str:
        if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
            return plain(value)
        if isinstance(value, Integral):
            return f"{int(value):,}"
        return f"{float(value):.3g}" if tiny else f"{float(value):,.{digits}f}"

    return [cell(value) for value in values]


def _is_numeric(values: Sequence[object]) -> bool:
    """Whether a column holds numbers, formatted or not, and nothing else."""
    present = [v for v in values if plain(v) != plain(None)]
    return bool(present) and all(isinstance(v, Real) or NUMERIC.match(str(v)) for v in present)


def _align(text: str, width: int, right: bool) -> str:
    return text.rjust(width) if right else text.ljust(width)
