"""LAC, table 1: the same accuracy in fewer steps, beside a control that always takes as few."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ponderosa.reproduce.recipe import Outcome, expand, plus_minus, results, spread
from ponderosa.training.jobs import Job

CONTROL = "control: RNN of 3 steps"


def jobs(recipe: Mapping[str, Any], root: Path) -> dict[str, list[Job]]:
    return expand(recipe, recipe["runs"], root)


def outcome(recipe: Mapping[str, Any], groups: Mapping[str, list[Job]]) -> Outcome:
    """The paper's table with our figures in it."""
    from ponderosa.measure import plots

    found = {name: results(group) for name, group in groups.items()}
    rows = []
    for name, runs in found.items():
        paper = recipe["paper"].get(name, {})
        rows.append({
            "method": name, "accuracy": plus_minus(runs, "accuracy", 4), "steps": plus_minus(runs, "mean_steps", 2),
            "batches": ", ".join(f"{run['batches']:,}" for run in runs),
            "paper_accuracy": paper.get("accuracy"), "paper_steps": paper.get("mean_steps"),
        })  # fmt: skip
    columns = {
        "method": "method", "accuracy": "accuracy", "steps": "mean steps", "batches": "batches (per seed)",
        "paper_accuracy": "paper: accuracy", "paper_steps": "paper: steps",
    }  # fmt: skip
    shown = [{**runs[0], "name": name} for name, runs in found.items()]
    return Outcome(rows, columns, reading(found), {"steps-by-difficulty": plots.steps_by_difficulty(shown)})


def reading(found: Mapping[str, list[dict[str, Any]]]) -> str:
    """What the figures say, the control included."""
    worst = min(run["accuracy"] for name, runs in found.items() if name != CONTROL for run in runs)
    steps = max(spread(runs, "mean_steps")[0] for name, runs in found.items() if "LAC" in name)
    control = min(run["accuracy"] for run in found[CONTROL])
    parts = [f"The lowest accuracy of any seed is {worst:.4f}; LAC takes at most {steps:.2f} steps on average."]
    if control >= worst - 0.001:
        parts.append(
            f"The control, a GRU that always takes 3 steps, does as well ({control:.4f}): 16 numbers are too few to show that "
            "adaptive depth is needed, only that LAC finds the depth by itself."
        )
    else:
        parts.append(f"The control, a GRU that always takes 3 steps, reaches only {control:.4f}.")
    return " ".join(parts)
