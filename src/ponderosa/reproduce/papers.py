"""Every table and figure of the four papers: what became of it, our figure and the paper's, as docs/results says."""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import yaml

from ponderosa.measure.table import markdown
from ponderosa.reproduce import RESULTS

COMMITTED = Path(__file__).parents[3] / "docs" / "results" / "papers.yaml"
"""In a clone; an installed package has its own copy."""
STATES = ("reproduced", "partly", "not", "not tried")
COLUMNS = {
    "paper": "paper", "items": "what", "state": "state", "ours": "ours", "theirs": "the paper's", "command": "command",
}  # fmt: skip
BEGIN, END = "<!-- papers: made by `ponderosa reproduce --readme README.md` -->\n", "<!-- end of papers -->\n"

ABOUT = "Every table and figure of the four papers ([results](docs/results/README.md)); `ponderosa reproduce` lists them, too."


@dataclass(frozen=True)
class Entry:
    """Tables and figures of a paper that one result shows, and that fared alike."""

    paper: str
    items: list[str]
    result: str
    state: str
    theirs: str
    ours: str | None = None

    @property
    def command(self) -> str | None:
        """What makes it; None where that is not built yet."""
        return f"ponderosa reproduce {self.result}" if self.result in RESULTS else None

    def row(self, items: Iterable[str]) -> dict[str, str | None]:
        """A line of a table about some of the items."""
        return {
            "paper": self.paper, "items": ", ".join(items), "state": self.state, "ours": self.ours, "theirs": self.theirs,
            "command": self.command,
        }  # fmt: skip


def entries() -> list[Entry]:
    """All of them, in the papers' order."""
    packaged = resources.files("ponderosa.reproduce").joinpath("papers.yaml")
    text = (COMMITTED if COMMITTED.is_file() else packaged).read_text()
    found = [Entry(paper["paper"], **entry) for paper in yaml.safe_load(text) for entry in paper["entries"]]
    for entry in found:
        if entry.state not in STATES:
            raise ValueError(f"papers.yaml: {entry.paper} {entry.items} is {entry.state!r}: choose one of {', '.join(STATES)}")
    return found


def each() -> list[dict[str, str | None]]:
    """A row for each table and figure: of each paper the tables first, by number."""
    listed = [(entry, item) for entry in entries() for item in entry.items]
    papers = list(dict.fromkeys(entry.paper for entry, _ in listed))

    def place(one: tuple[Entry, str]) -> tuple[int, bool, int]:
        kind, number = one[1].split()
        return papers.index(one[0].paper), kind == "figure", int(number)

    return [entry.row([item]) for entry, item in sorted(listed, key=place)]


def block() -> str:
    """The README's table, between its marks."""
    rows = [{**entry.row(_linked(entry)), "command": entry.command and f"`{entry.command}`"} for entry in entries()]
    return f"{BEGIN}{ABOUT}\n\n{markdown(rows, COLUMNS)}\n{END}"


def _linked(entry: Entry) -> list[str]:
    """Its tables and figures, with a link to the page of the result, where there is one."""
    return [item if entry.ours is None else f"[{item}](docs/results/{entry.result}.md)" for item in entry.items]


def write_block(path: Path | str) -> None:
    """Put the table in its place in a README."""
    text = Path(path).read_text()
    if BEGIN not in text or END not in text:
        raise ValueError(f"{path} has no place for the table: write {BEGIN.strip()} and {END.strip()} on lines of their own")
    before, rest = text.split(BEGIN, 1)
    Path(path).write_text(f"{before}{block()}{rest.split(END, 1)[1]}")
