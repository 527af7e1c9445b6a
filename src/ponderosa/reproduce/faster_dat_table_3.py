"""Faster depth-adaptive transformers, table 3: accuracy by task and estimator, beside the paper's and the controls."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from ponderosa.reproduce.recipe import Outcome, folder_name, plus_minus, results, spread
from ponderosa.training.jobs import Job
from ponderosa.training.settings import Settings
from ponderosa.training.text import TextRun, plain_text

FULL = "full depth"
shows_part = True
"""A table with some runs missing is a table still."""


def jobs(recipe: Mapping[str, Any], root: Path) -> dict[str, list[Job]]:
    return {
        f"{task}: {name}": [_job(recipe, task, options, seed, root / folder_name(f"{task} {name}")) for seed in recipe["seeds"]]
        for task in recipe["tasks"]
        for name, options in recipe["runs"].items()
    }


def _job(recipe: Mapping[str, Any], task: str, options: Mapping[str, Any], seed: int, folder: Path) -> Job:
    subset = {k: v for k, v in recipe["tasks"][task].items() if k not in recipe["common"]}  # the command line's own size wins
    given = {**recipe["common"], **subset, **options, "task": task, "seed": seed}
    of_run = {f.name for f in fields(TextRun)}
    run = TextRun(**{k: v for k, v in given.items() if k in of_run})
    settings = Settings(**{k: v for k, v in given.items() if k not in of_run})
    return Job(folder / f"seed-{seed}", plain_text(run, settings), batches=1, examples=None, command="adapt")


def outcome(recipe: Mapping[str, Any], groups: Mapping[str, list[Job]]) -> Outcome:
    """One row for each task and method that there is."""
    found = {name: results(group) for name, group in groups.items() if group}
    rows = []
    for name, runs in found.items():
        task, method = name.split(": ", 1)
        full = found.get(f"{task}: {FULL}")
        gain = None if full is None else 100 * (spread(runs, "accuracy")[0] - spread(full, "accuracy")[0])
        paper = recipe["paper"].get(method, {}).get(task)
        rows.append({
            "task": task, "method": method, "accuracy": _percent(runs), "gain": None if gain is None else f"{gain:+.2f}",
            "depth": plus_minus(runs, "mean_depth", 2), "bound": plus_minus(runs, "bound", 2),
            "examples": f"{runs[0]['train_examples']:,} / {runs[0]['examples']:,}", "paper": paper,
        })  # fmt: skip
    columns = {
        "task": "task", "method": "method", "accuracy": "accuracy, %", "gain": "against full depth", "depth": "mean depth",
        "bound": "speed-up possible", "examples": "training / test examples", "paper": "paper (BERT-base)",
    }  # fmt: skip
    return Outcome(rows, columns, reading(found), {})


def _percent(runs: list[dict[str, Any]]) -> str:
    return plus_minus([{**run, "accuracy": 100 * run["accuracy"]} for run in runs], "accuracy", 2)


def reading(found: Mapping[str, list[dict[str, Any]]]) -> str:
    """What the figures say; a control that does as well as a method is named."""
    said = ["The speed-up that is possible follows from the operations on 32 test sentences."]
    for task in dict.fromkeys(name.split(": ", 1)[0] for name in found):
        means = {
            name.split(": ", 1)[1]: spread(runs, "accuracy")[0] for name, runs in found.items() if name.startswith(f"{task}: ")
        }
        methods = {name: mean for name, mean in means.items() if "estimation" in name}
        controls = {name: mean for name, mean in means.items() if name.startswith("control")}
        if methods and controls:
            best, control = max(methods, key=methods.__getitem__), max(controls, key=controls.__getitem__)
            wins = controls[control] >= methods[best]
            said.append(
                f"On {task} {control.removeprefix('control: ')} ({100 * controls[control]:.2f}) "
                f"{'does as well as or better than' if wins else 'stays below'} {best} ({100 * methods[best]:.2f})."
            )
    return " ".join(said)
