"""Rows of figures that show themselves: as a table in a terminal, as HTML in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from ponderosa.measure import html
from ponderosa.measure.table import grid, table


class Frame(list[dict[str, Any]]):
    """A list of rows (dicts), so `pandas.DataFrame(frame)` works; `columns` are what is shown, with their headings.

    >>> frame = Frame([{"steps": 3, "right": 0.5}, {"steps": 4, "right": 0.75}], {"steps": "steps", "right": "accuracy"})
    >>> frame.column("right")
    [0.5, 0.75]
    >>> frame
    steps  accuracy
    -----  --------
        3     0.500
        4     0.750
    """

    def __init__(self, rows: Iterable[dict[str, Any]], columns: Mapping[str, str]):
        super().__init__(rows)
        self.columns = {key: head for key, head in columns.items() if any(row.get(key) is not None for row in self)}

    def column(self, key: str) -> list[Any]:
        """What each row says under a key."""
        return [row.get(key) for row in self]

    def __repr__(self) -> str:
        return table(self, self.columns)

    def _repr_html_(self) -> str:
        heads, *rows = grid(self, self.columns)[0]
        cells = [[escape(cell) for cell in row] for row in rows]
        return html.table(map(escape, heads), cells, ", ".join(heads))
