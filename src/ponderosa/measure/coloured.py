"""A sentence with its words coloured by depth, as HTML."""

from collections.abc import Sequence
from html import escape
from string import Template

PAGE = Template("""<!doctype html><html lang="en"><meta charset="utf-8"><title>$title</title>
<style>body{font:16px/2 sans-serif;max-width:50em;margin:2em auto}b{font-weight:normal;padding:.15em .3em;border-radius:.3em}
sub{opacity:.6}h2{font-size:1em}</style>
<h1>$title</h1>$body</html>
""")


def coloured(words: Sequence[str], depths: Sequence[int], layers: int) -> str:
    """One line of words: the darker, the deeper; the number below is the depth."""
    parts = []
    for word, depth in zip(words, depths, strict=True):
        light = 97 - 55 * (depth - 1) / max(layers - 1, 1)
        ink = "#fff" if light < 60 else "#000"
        parts.append(f'<b style="background:hsl(205 70% {light:.0f}%);color:{ink}">{escape(word)}<sub>{depth}</sub></b>')
    return f"<p>{' '.join(parts)}</p>"


def page(title: str, lines: Sequence[tuple[str, str]]) -> str:
    """A page of coloured lines, each under its own heading."""
    body = "\n".join(f"<h2>{escape(heading)}</h2>\n{line}" for heading, line in lines)
    return PAGE.substitute(title=escape(title), body=body)
