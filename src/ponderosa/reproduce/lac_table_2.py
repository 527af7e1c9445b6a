"""LAC, table 2: CIFAR-10 in fewer layers, beside baselines that always take as few."""

from collections.abc import Mapping
from typing import Any

from ponderosa.measure.paired import paired_difference
from ponderosa.reproduce.lac_cifar import baseline, jobs, scores
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
        "found": difference, "layers": spread(runs, "mean_steps")[0],
        "method": name, "seeds": len(runs), "accuracy": plus_minus(runs, "accuracy", 4),
        "steps": plus_minus(runs, "mean_steps", 2), "saved": f"{1 - spread(runs, 'mean_steps')[0] / full:.0%}",
        "difference": difference and difference.points(), "paper": recipe["paper"].get(name),
    }  # fmt: skip


def reading(rows: list[dict[str, Any]]) -> str:
    """Whether layers are saved without loss, and whether a shallower network does as well."""
    compared = [row for row in rows if row["found"] is not None]
    said = [_verdict(row) for row in compared if "LAC" in row["method"]]
    return " ".join(said + [_control(row, compared) for row in compared if "control" in row["method"]])


def _verdict(row: dict[str, Any]) -> str:
    found = row["found"]
    lost = "more than half a point below" if found.high < -HALF_A_POINT else "not surely within half a point"
    near = "within half a point below" if found.low > -HALF_A_POINT else lost
    return f"{row['method']} saves {row['saved']} of the layers, {row['difference']} points against its baseline: {near}."


def _control(row: dict[str, Any], compared: list[dict[str, Any]]) -> str:
    """A control, and the runs that take about as many layers (one more or less) without doing better."""
    rivals = [
        other["method"] for other in compared
        if "LAC" in other["method"] and baseline(other["method"]) == baseline(row["method"])
        and abs(other["layers"] - row["layers"]) <= 1 and other["found"].mean <= row["found"].mean
    ]  # fmt: skip
    beside = f", no worse than {' and '.join(rivals)} with about as many layers" if rivals else ""
    return f"{row['method']} is at {row['difference']} points{beside}."
