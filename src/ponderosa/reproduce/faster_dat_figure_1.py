"""Faster depth-adaptive transformers, figure 1: how much words tell about the label, and how deep both estimators send them."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ponderosa.depth import DepthEstimator, MutualInformation, WordTable
from ponderosa.depth.reconstruction import PENALTY
from ponderosa.measure.figure import PALETTE, WIDTH, style
from ponderosa.measure.plots import whole_numbers
from ponderosa.reproduce.faster_dat import depths_file, task_of
from ponderosa.reproduce.recipe import Outcome
from ponderosa.tasks.text import TextClassification
from ponderosa.training.jobs import Job

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = {
    "task": "task", "estimator": "estimator", "words": "words", "depth": "mean depth of a word", "running": "in running text",
    "telling": "words that go least deep", "silent": "MI exactly 0",
}  # fmt: skip


def jobs(recipe: Mapping[str, Any], root: Path) -> dict[str, list[Job]]:
    """Nothing is trained; reconstruction's depths are shown where `faster-dat-table-3` has fitted them."""
    return {}


def estimators(recipe: Mapping[str, Any], task: TextClassification) -> dict[str, WordTable]:
    """Mutual information, fitted now, and reconstruction if it is there."""
    layers = recipe["layers"]
    found: dict[str, WordTable] = {
        "MI": MutualInformation.fit(task.texts("train"), task.targets("train"), task.tokenizer, layers=layers)
    }
    file = depths_file(recipe["root"], task.name, PENALTY)
    if file.exists():
        found["reconstruction"] = WordTable.load(file)
    return found


def outcome(recipe: Mapping[str, Any], groups: Mapping[str, list[Job]]) -> Outcome:
    rows, figures, data = [], {}, {}
    for name in recipe["tasks"]:
        task = task_of(recipe, name)
        found = estimators(recipe, task)
        mutual = found["MI"]
        assert isinstance(mutual, MutualInformation)
        information = mutual.information
        depths = {kind: list(each.table.values()) for kind, each in found.items()}
        shares = {kind: [each.count(n) / len(each) for n in range(1, recipe["layers"] + 1)] for kind, each in depths.items()}
        for kind, each in found.items():
            known = sum(value == 0 for value in information.values()) if kind == "MI" else None
            words = len(each.table)
            rows.append({
                "task": name, "estimator": kind, "words": words, "depth": f"{sum(depths[kind]) / words:.2f}",
                "running": f"{running_depth(each, task.texts('test')[: recipe['texts']]):.2f}",
                "telling": ", ".join(least_deep(each, information)),
                "silent": None if known is None else f"{known / len(information):.1%}",
            })  # fmt: skip
        figures[name], data[name] = draw(list(information.values()), shares), shares
    text = (
        f"Depths from 1 to {recipe['layers']}; in running text: over the words of {recipe['texts']:,} test texts. Words that "
        "go least deep: those of the first bin, or of the shallowest there is, in the order of their mutual information."
    )
    return Outcome(rows, COLUMNS, text, figures, {"shares": data})


def running_depth(estimator: DepthEstimator, texts: list[str]) -> float:
    """The mean depth over the words of texts, each as often as it is there."""
    depths = [depth for text in texts for depth in estimator.depths(text)]
    return sum(depths) / len(depths)


def least_deep(estimator: WordTable, information: Mapping[str, float], count: int = 6) -> list[str]:
    """Words of the shallowest depth that there is, the most telling first."""
    first = min(estimator.table.values())
    words = [word for word, depth in estimator.table.items() if depth == first and word.isalpha()]
    return sorted(words, key=lambda word: -information.get(word, 0.0))[:count]


@style()
def draw(information: list[float], shares: Mapping[str, list[float]]) -> "Figure":
    """A histogram of mutual information, long tail and all, and of the depths by each estimator."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, 2.2 * (1 + len(shares))), layout="constrained")
    top, *others = figure.subplots(1 + len(shares), squeeze=False)[:, 0]
    top.hist(information, bins=60, color=PALETTE[0], log=True)
    top.set_title("Words by mutual information")
    top.set_xlabel("nats")
    top.yaxis.set_major_formatter("{x:,.0f}")
    top.minorticks_off()
    for axis, (kind, share), color in zip(others, shares.items(), PALETTE[1:], strict=False):
        axis.bar(range(1, len(share) + 1), share, color=color)
        axis.set_title(f"Share of words by depth: {kind}")
        axis.set_xlabel("depth")
        whole_numbers(axis)
    return figure
