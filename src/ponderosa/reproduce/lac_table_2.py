"""LAC, table 2: CIFAR-10 in fewer layers, beside baselines that always take as few."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ponderosa.measure.paired import Difference, paired_difference
from ponderosa.reproduce.lac_cifar import baseline, jobs, scores, variant
from ponderosa.reproduce.recipe import Outcome, plus_minus, results, spread
from ponderosa.training.jobs import Job

__all__ = ["jobs", "outcome"]
shows_part = True
HALF_A_POINT = 0.005


def outcome(recipe: Mapping[str, Any], groups: Mapping[str, list[Job]]) -> Outcome:
    """The paper's table with our figures in it; every run beside its baseline on the same images."""
    from ponderosa.measure import plots

    trained = {name: group for name, group in groups.items() if group}
    found = {name: results(group) for name, group in trained.items()}
    differences = {name: _difference(trained, name, baseline(recipe, name)) for name in trained}
    columns = {
        "method": "method", "seeds": "seeds", "batches": "batches", "accuracy": "accuracy", "steps": "mean layers",
        "saved": "layers saved", "difference": "points against the baseline [95 % over test images]", "each": "of each seed",
        "paper": "paper: accuracy",
    }  # fmt: skip
    rows = [_row(recipe, found, name, differences[name]) for name in trained]
    pictures = {
        "-".join(["frontier", *of.split()]): plots.frontier(
            [_point(name.removesuffix(f", {of}"), runs) for name, runs in found.items() if variant(recipe, name) == of]
        )
        for of in dict.fromkeys(variant(recipe, name) for name in found)
    }
    return Outcome(rows, columns, reading(recipe, trained, found, differences), pictures)


def _point(name: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    means = {key: spread(runs, key)[0] for key in ("accuracy", "mean_steps", "operations")}
    return {"name": name, **means}


@dataclass(frozen=True)
class Compared:
    """A run against another on the same images: over all seeds, and of each."""

    all: Difference
    each: list[float]

    @property
    def near(self) -> str:
        """Whether at most half a point is lost, by the test images and by every seed."""
        if self.all.low > 0 and min(self.each) > 0:
            return "above it"
        if self.all.low > -HALF_A_POINT and min(self.each) > -HALF_A_POINT:
            return "within half a point below"
        return "more than half a point below" if self.all.high < -HALF_A_POINT else "not surely within half a point"


def _difference(groups: Mapping[str, list[Job]], name: str, other: str) -> Compared | None:
    """One run against another, of the seeds that both have."""
    shared = min(len(groups[name]), len(groups.get(other, [])))
    if name == other or not shared:
        return None
    ours, theirs = scores(groups[name][:shared]), scores(groups[other][:shared])
    return Compared(paired_difference(ours, theirs), (ours - theirs).mean(1).tolist())


def _row(
    recipe: Mapping[str, Any], found: Mapping[str, list[dict[str, Any]]], name: str, difference: Compared | None
) -> dict[str, Any]:
    runs = found[name]
    return {
        "method": name, "seeds": len(runs), "batches": runs[0]["batches"], "accuracy": plus_minus(runs, "accuracy", 4),
        "steps": plus_minus(runs, "mean_steps", 2), "saved": _saved(recipe, found, name),
        "difference": difference and difference.all.points(),
        "each": difference and ", ".join(f"{100 * one:+.2f}" for one in difference.each), "paper": recipe["paper"].get(name),
    }  # fmt: skip


def _saved(recipe: Mapping[str, Any], found: Mapping[str, list[dict[str, Any]]], name: str) -> str:
    full = found.get(baseline(recipe, name), found[name])[0]["max_steps"]
    return f"{1 - spread(found[name], 'mean_steps')[0] / full:.0%}"


def reading(
    recipe: Mapping[str, Any], groups: Mapping[str, list[Job]], found: Mapping[str, list[dict[str, Any]]],
    differences: Mapping[str, Compared | None],
) -> str:  # fmt: skip
    """Whether layers are saved without loss, and whether a shallower network does as well."""
    said = [
        f"Networks {recipe['runs']['ViT']['step']['init_args']['size']} wide, where a row says nothing else; the paper's are "
        "768 and train for 300 epochs."
    ]
    for name, difference in differences.items():
        if "LAC" in name and difference is not None:
            saved, points = _saved(recipe, found, name), difference.all.points()
            said.append(f"{name} saves {saved} of the layers, {points} points against its baseline: {difference.near}.")
    return " ".join(said + [_beside(recipe, groups, found, name) for name in found if "control" in name])


def _beside(
    recipe: Mapping[str, Any], groups: Mapping[str, list[Job]], found: Mapping[str, list[dict[str, Any]]], control: str
) -> str:
    """The runs that take about as many layers as a control (one more or less), against it."""
    layers, base = spread(found[control], "mean_steps")[0], baseline(recipe, control)
    alike = [name for name in found if "LAC" in name and baseline(recipe, name) == base]
    rivals = [name for name in alike if abs(spread(found[name], "mean_steps")[0] - layers) <= 1]
    seen = [(name, _difference(groups, name, control)) for name in rivals]
    against = ", ".join(f"{name} {difference.all.points()}" for name, difference in seen if difference)
    return f"Against {control.removeprefix('control: ')}, at about as many layers: {against or 'nothing to compare'}."
