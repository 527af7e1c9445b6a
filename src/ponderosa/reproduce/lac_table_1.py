"""LAC, table 1: the same accuracy in fewer steps, beside a control that always takes as few."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ponderosa.reproduce.recipe import Outcome, expand, plus_minus, results, spread
from ponderosa.training.jobs import Job

CONTROL = "control: RNN of 3 steps"


def jobs(recipe: Mapping[str, Any], root: Path) -> dict[str, list[Job]]:
    longer = recipe["longer"]
    task = {"class_path": "ponderosa.tasks.Parity", "init_args": {"length": longer["length"]}}
    seeds = longer["seeds"][: len(recipe["seeds"])]
    more = {**recipe, "seeds": seeds, "common": {**recipe["common"], "task": task, "batches": longer["batches"]}}
    runs = {long_name(recipe, name): recipe["runs"][name] for name in longer["runs"]}
    return expand(recipe, recipe["runs"], root) | expand(more, runs, root)


def long_name(recipe: Mapping[str, Any], name: str) -> str:
    return f"{name}, length {recipe['longer']['length']}"


def outcome(recipe: Mapping[str, Any], groups: Mapping[str, list[Job]]) -> Outcome:
    """The paper's table with our figures in it, and longer vectors below."""
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
    figures = {}
    for title, names in (("steps-by-difficulty", recipe["runs"]), ("longer", [n for n in found if n not in recipe["runs"]])):
        figures[title] = plots.steps_by_difficulty([{**found[name][0], "name": name} for name in names])
    return Outcome(rows, columns, reading(recipe, found), figures)


def reading(recipe: Mapping[str, Any], found: Mapping[str, list[dict[str, Any]]]) -> str:
    """What the figures say, the control included."""
    short = {name: found[name] for name in recipe["runs"]}
    worst = min(run["accuracy"] for name, runs in short.items() if name != CONTROL for run in runs)
    steps = max(spread(runs, "mean_steps")[0] for name, runs in short.items() if "LAC" in name)
    control = min(run["accuracy"] for run in short[CONTROL])
    too_short = ": 16 numbers are too few to show that adaptive depth is needed, only that LAC finds the depth by itself"
    parts = [
        f"The lowest accuracy of any seed is {worst:.4f}; LAC takes at most {steps:.2f} steps on average.",
        f"The control, a GRU that always takes 3 steps, reaches {control:.4f}{too_short if control >= worst - 0.001 else ''}.",
    ]
    longer = {name: spread(found[long_name(recipe, name)], "accuracy")[0] for name in recipe["longer"]["runs"]}
    seen = ", ".join(f"{name} {accuracy:.4f}" for name, accuracy in longer.items())
    after = max(run["batches"] for name in recipe["longer"]["runs"] for run in found[long_name(recipe, name)])
    return " ".join([*parts, f"With {recipe['longer']['length']} numbers, after {after:,} batches at most: {seen}."])
