"""LAC, table 2: CIFAR-10 in fewer layers, beside baselines that always take as few."""

from collections.abc import Mapping
from typing import Any

from ponderosa.measure.paired import paired_difference
from ponderosa.reproduce.lac_cifar import baseline, jobs, scores
from ponderosa.reproduce.recipe import Outcome, plus_minus, results, spread
from ponderosa.training.jobs import Job

__all__ = ["jobs", "outcome"]
shows_part = True


def outcome(recipe: Mapping[str, Any], groups: Mapping[str, list[Job]]) -> Outcome:
    """The paper's table with our figures in it; every run beside its baseline on the same images."""
    from ponderosa.measure import plots

    trained = {name: group for name, group in groups.items() if group}
    found = {name: results(group) for name, group in trained.items()}
    rows = [row(recipe, trained, found, name) for name in trained]
    columns = {
        "method": "method", "seeds": "seeds", "accuracy": "accuracy", "steps": "mean layers", "saved": "layers saved",
        "difference": "points against the baseline [95 %]", "paper": "paper: accuracy",
    }  # fmt: skip
    figure = plots.frontier([{**runs[0], "name": name} for name, runs in found.items()])
    return Outcome(rows, columns, reading(rows), {"frontier": figure})


def row(
    recipe: Mapping[str, Any], groups: Mapping[str, list[Job]], found: Mapping[str, list[dict[str, Any]]], name: str
) -> dict[str, Any]:
    runs, base = found[name], baseline(name)
    full = found[base][0]["max_steps"] if base in found else runs[0]["max_steps"]
    shared = min(len(groups[name]), len(groups.get(base, [])))
    compared = name != base and shared
    difference = paired_difference(scores(groups[name][:shared]), scores(groups[base][:shared])) if compared else None
    return {
        "method": name, "seeds": len(runs), "accuracy": plus_minus(runs, "accuracy", 4),
        "steps": plus_minus(runs, "mean_steps", 2), "saved": f"{1 - spread(runs, 'mean_steps')[0] / full:.0%}",
        "difference": difference and difference.points(), "paper": recipe["paper"].get(name),
    }  # fmt: skip


def reading(rows: list[dict[str, Any]]) -> str:
    """Whether layers are saved without loss, and whether a shallower network does as well."""
    parts = []
    for found in rows:
        if "LAC" not in found["method"] or found["difference"] is None:
            continue
        low = float(found["difference"].split("[")[1].split(",")[0])
        near = "within" if low > -0.5 else "not surely within"
        parts.append(
            f"{found['method']} saves {found['saved']} of the layers, {found['difference']} points against its baseline: "
            f"{near} half a point below."
        )
    controls = [f"{found['method']} is at {found['difference']} points." for found in rows if "control" in found["method"]]
    return " ".join(parts + controls)
