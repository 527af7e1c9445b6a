"""Readers of the data sets' original files: each gives texts and labels."""

from __future__ import annotations

import csv
import io
import sys
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from ponderosa.tasks.files import one, read_bytes

Examples = list[tuple[str, str]]
"""A text and the name of its label, each."""


def decoded(data: bytes) -> str:
    """UTF-8 where it is, else Latin-1, which has a letter for every byte."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def trec(path: Path) -> Examples:
    """`COARSE:fine question` in each line, Latin-1: the coarse label."""
    lines = path.read_bytes().decode("latin-1").splitlines()
    return [(text, label.split(":")[0]) for label, _, text in (line.partition(" ") for line in lines if line.strip())]


def sentences(path: Path, label: str) -> Examples:
    """A sentence in each line, all of one label; some lines have stray bytes of other encodings."""
    return [(line.strip(), label) for line in path.read_bytes().decode("latin-1").split("\n") if line.strip()]


def tabbed(lines: Iterable[bytes]) -> Examples:
    """`label TAB text` in each line, each in an encoding of its own."""
    parts = (decoded(line).rstrip("\r\n").partition("\t") for line in lines if line.strip())
    return [(text.strip(), label.strip()) for label, _, text in parts]


def table(path: Path) -> Examples:
    """CSV: the label first, then columns whose texts belong together; a head names them `label`, `id`, `rating`, ..."""
    csv.field_size_limit(sys.maxsize)
    rows: Iterator[list[str]] = iter(csv.reader(io.StringIO(decoded(read_bytes(path)), newline="")))
    first = next(rows)
    wanted = list(range(1, len(first)))
    if first[0] == "label":
        wanted = [i for i in wanted if first[i] not in ("id", "rating")]
    else:
        rows = _again(first, rows)
    return [(" ".join(row[i].replace("\\n", "\n") for i in wanted if row[i]), row[0]) for row in rows if row]


def _again(first: list[str], rest: Iterator[list[str]]) -> Iterator[list[str]]:
    yield first
    yield from rest


def columns(path: Path, *names: str) -> list[tuple[str, ...]]:
    """CSV with a head: the columns of these names, row by row."""
    csv.field_size_limit(sys.maxsize)
    with path.open(encoding="utf-8", newline="") as file:
        return [tuple(row[name] for name in names) for row in csv.DictReader(file)]


def reviews(folder: Path) -> Examples:
    """IMDB as published: a folder for each label, a file for each review."""
    files = [(path, label) for label in ("neg", "pos") for path in sorted((folder / label).glob("*.txt"))]
    return [(decoded(path.read_bytes()).replace("<br />", " "), label) for path, label in files]


def member(folder: Path, name: str) -> list[bytes]:
    """The lines of a file in a folder, or in the one archive that it holds."""
    if (folder / name).is_file():
        return (folder / name).read_bytes().split(b"\n")
    archive = one(folder, "*.tar.gz", "*.tgz")
    with tarfile.open(archive) as tar:
        for part in tar.getmembers():
            if part.isfile() and Path(part.name).name == name:
                content = tar.extractfile(part)
                assert content is not None
                return content.read().split(b"\n")
    raise FileNotFoundError(f"{archive} has no file {name}")
