"""The pieces of a page: tables and lists, escaped."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from ponderosa.measure.formatting import plain


def text(value: object) -> str:
    """Any value, short and safe to put on a page."""
    return escape(plain(value))


def table(heads: Iterable[str], rows: Iterable[Sequence[str]], label: str) -> str:
    """A table that scrolls on its own, by keyboard too; cells are HTML."""
    head = "".join(f'<th scope="col">{cell}</th>' for cell in heads)
    body = "\n".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>' for first, *rest in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>"
    )


def definitions(entries: Mapping[str, object], kind: str) -> str:
    """Terms and what they are."""
    items = "\n".join(f"<dt>{escape(str(key))}</dt><dd>{text(value)}</dd>" for key, value in entries.items())
    return f'<dl class="{kind}">\n{items}\n</dl>' if items else ""
