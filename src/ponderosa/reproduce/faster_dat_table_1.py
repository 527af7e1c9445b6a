"""Faster depth-adaptive transformers, table 1: the data sets as they are loaded here, beside the paper's figures."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ponderosa.reproduce.recipe import Outcome
from ponderosa.tasks.text.files import Examples
from ponderosa.tasks.text.sets import DOMAINS, load
from ponderosa.training.jobs import Job

COLUMNS = {
    "task": "data set", "source": "as loaded", "classes": "classes", "paper_classes": "paper", "mean": "words on average",
    "paper_mean": "paper", "longest": "at most", "paper_longest": "paper", "train": "training", "paper_train": "paper",
    "test": "test", "paper_test": "paper",
}  # fmt: skip


def jobs(recipe: Mapping[str, Any], root: Path) -> dict[str, list[Job]]:
    """Nothing is trained."""
    return {}


def outcome(recipe: Mapping[str, Any], groups: Mapping[str, list[Job]]) -> Outcome:
    rows = []
    for name, figures in recipe["paper"].items():
        paper = {f"paper_{key}": value for key, value in figures.items()}
        rows.append({"task": name, **paper, **_loaded(name, recipe["common"].get("data_dir"))})
    missing = [row["task"] for row in rows if row["source"] == "not here"]
    text = f"CV: 5-fold cross-validation. What is called a subset is one. {recipe['remark']}"
    return Outcome(rows, COLUMNS, f"{text} Not here: {', '.join(missing)}." if missing else text, {})


def _loaded(name: str, data_dir: str | None) -> dict[str, Any]:
    """Figures of a data set; Amazon-16 is all its domains together."""
    names = [f"amazon-{domain.lower()}" for domain in DOMAINS] if name == "amazon-16" else [name]
    train: Examples = []
    test: Examples | None = []
    try:
        for each in names:
            (some, other), source = load(each, data_dir)
            train, test = train + some, None if other is None or test is None else test + other
    except FileNotFoundError:
        return {"source": "not here"}
    lengths = [len(text.split()) for text, _ in train + (test or [])]
    return {
        "source": source, "classes": len({label for _, label in train}), "mean": round(sum(lengths) / len(lengths)),
        "longest": max(lengths), "train": len(train), "test": "CV" if test is None else f"{len(test):,}",
    }  # fmt: skip
