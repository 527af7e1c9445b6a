"""The pieces of a page: tables and lists, escaped."""

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from ponderosa.measure.formatting import plain


def text(value: object) -> str:
    """Any value, short and safe to put on a page."""
    return escape(plain(value))


def table(heads: Iterable[str], rows: Sequence[Sequence[str]], label: str) -> str:
    """A table that scrolls on its own, by keyboard too; cells are HTML. A narrow page shows its rows one below the other, each
    cell beside its column's name."""
    heads = list(heads)
    head = "".join(f'<th scope="col">{cell}</th>' for cell in heads)
    names = [re.sub("<[^>]*>", " ", cell).strip() for cell in heads[1:]]
    cells = ("".join(f'<td data-of="{name}">{cell}</td>' for name, cell in zip(names, rest)) for _, *rest in rows)
    body = "\n".join(f'<tr><th scope="row">{row[0]}</th>{others}</tr>' for row, others in zip(rows, cells))
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>"
    )


def definitions(entries: Mapping[str, object], kind: str) -> str:
    """Terms and what they are."""
    items = "\n".join(f"<dt>{escape(str(key))}</dt><dd>{text(value)}</dd>" for key, value in entries.items())
    return f'<dl class="{kind}">\n{items}\n</dl>' if items else ""
