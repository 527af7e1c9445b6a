"""Faster depth-adaptive transformers, figure 5: a text of each task, its words coloured by depth, by both estimators."""

from collections.abc import Mapping
from typing import Any

from ponderosa.depth.words import split_words
from ponderosa.measure.coloured import coloured, draw, page
from ponderosa.reproduce.faster_dat import task_of
from ponderosa.reproduce.faster_dat_figure_1 import estimators, jobs
from ponderosa.reproduce.recipe import Outcome
from ponderosa.training.jobs import Job

__all__ = ["jobs", "outcome"]


def outcome(recipe: Mapping[str, Any], groups: Mapping[str, list[Job]]) -> Outcome:
    """The first test text of each task, by each estimator: as HTML and as a picture."""
    rows: list[dict[str, Any]] = []
    lines: list[tuple[str, list[str], list[int]]] = []
    for name in recipe["tasks"]:
        task = task_of(recipe, name)
        text = task.texts("test")[0]
        for kind, estimator in estimators(recipe, task).items():
            lower = estimator.vocabulary is None or estimator.vocabulary.lower
            words, depths = split_words(text, lower)[: recipe["words"]], estimator.depths(text)[: recipe["words"]]
            lines.append((f"{name}, {kind}", words, depths))
            rows.append({
                "task": name, "estimator": kind, "depth": f"{sum(depths) / len(depths):.2f}",
                "text": " ".join(f"{word} {depth}" for word, depth in zip(words, depths, strict=True)),
            })  # fmt: skip
    columns = {"task": "task", "estimator": "estimator", "depth": "mean depth", "text": "each word and its depth"}
    layers = recipe["layers"]
    html = page(f"Depth of each word, of {layers}", [(name, coloured(words, depths, layers)) for name, words, depths in lines])
    text = f"The first test text of each task, its first {recipe['words']} words: the darker, the deeper."
    return Outcome(rows, columns, text, {"words": draw(lines, layers)}, pages={"words.html": html})
