"""Hyper-UT, figure 4: the implicit curriculum. Which number of hops is learned when?"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ponderosa.reproduce import hyper_ut
from ponderosa.reproduce.hyper_ut import Runs, Spread, of_task, over_seeds
from ponderosa.reproduce.recipe import Outcome, results
from ponderosa.training.jobs import Job

LEVELS = (0.5, 0.9)
"""Accuracies: a number of hops counts as learned to one of them at the first validation that reaches it."""


shows_part = True  # also of runs that are still in training


def jobs(recipe: Mapping[str, Any], root: Path) -> dict[str, list[Job]]:
    return hyper_ut.jobs(recipe, root)


def outcome(recipe: Mapping[str, Any], groups: Mapping[str, list[Job]]) -> Outcome:
    from ponderosa.reproduce.hyper_ut_plots import over_training

    found = {name: results(group) for name, group in groups.items()}
    rows: list[dict[str, Any]] = []
    text, figures, curves = [], dict[str, Any](), dict[str, Any]()
    for task in recipe["tasks"]:
        for model, runs in of_task(found, task).items():
            learned = [reached(runs, task, model, hops) for hops in hops_of(runs)]
            rows += learned
            text.append(order(task, model, learned))
            curves[f"{task}: {model}"] = {h: curve(runs, h) for h in hops_of(runs)}
            figures[f"{task}-{model}"] = over_training(curves[f"{task}: {model}"], f"{model} on {task}")
    columns = {"task": "task", "model": "model", "hops": "hops"} | {f"at_{a}": f"batches to accuracy {a}" for a in LEVELS}
    return Outcome(rows, columns | {"last": "accuracy in the end"}, " ".join(text), figures, {"curves": curves})


def hops_of(runs: Runs) -> list[int]:
    return sorted({int(row["difficulty"]) for row in runs[0]["curriculum"]})


def curve(runs: Runs, hops: int) -> list[tuple[float, Spread]]:
    """Batch and accuracy, mean and spread over the seeds that got so far."""
    by_batch: dict[float, list[float]] = {}
    for run in runs:
        for row in run["curriculum"]:
            if row["difficulty"] == hops:
                by_batch.setdefault(row["batch"], []).append(row["accuracy"])
    return [(batch, spread) for batch, values in sorted(by_batch.items()) if (spread := over_seeds(values))]


def reached(runs: Runs, task: str, model: str, hops: int) -> dict[str, Any]:
    """The first batch at which the mean over seeds reaches each level, if it does."""
    points = curve(runs, hops)
    first = {f"at_{a}": next((int(batch) for batch, seen in points if seen.mean >= a), None) for a in LEVELS}
    return {"task": task, "model": model, "hops": hops, **first, "last": f"{points[-1][1]:3}"}


def order(task: str, model: str, learned: list[dict[str, Any]]) -> str:
    """Whether more hops are never learned before fewer, at any level."""
    when = {level: [row[f"at_{level}"] for row in learned] for level in LEVELS}
    if all(batch is None for batch in when[LEVELS[0]]):
        return f"On {task}, {model} learned no number of hops to accuracy {LEVELS[0]}: the order is open."
    in_order = all(batches == sorted(batches, key=_never_last) for batches in when.values())
    verdict = "never learns more hops before fewer" if in_order else "does not learn examples in the order of their hops"
    said = "; ".join(
        f"accuracy {level} after {', '.join('never' if b is None else f'{b:,}' for b in batches)}"
        for level, batches in when.items()
    )
    return f"On {task}, {model} {verdict}: {said} batches for 1 to {len(learned)} hops."


def _never_last(batch: int | None) -> float:
    return math.inf if batch is None else batch
