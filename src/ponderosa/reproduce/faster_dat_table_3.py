"""Faster depth-adaptive transformers, table 3: accuracy by task and estimator, beside the paper's and the controls."""

from collections.abc import Mapping
from typing import Any

from ponderosa.reproduce.faster_dat import FULL, gain, jobs, of_same_seeds, prepare
from ponderosa.reproduce.recipe import Outcome, plus_minus, results, spread
from ponderosa.training.jobs import Job

__all__ = ["jobs", "outcome", "prepare", "shows_part"]

shows_part = True
"""A table with some runs missing is a table still."""


def outcome(recipe: Mapping[str, Any], groups: Mapping[str, list[Job]]) -> Outcome:
    """One row for each task and method that there is."""
    found = {name: results(group) for name, group in groups.items() if group}
    rows = []
    for name, runs in found.items():
        task, method = name.split(": ", 1)
        full = found.get(f"{task}: {FULL}")
        paper = recipe["paper"].get(method.removesuffix(", bounded"), {}).get(task)
        rows.append({
            "task": task, "method": method, "accuracy": _percent(runs), "gain": f"{gain(runs, full):+.2f}" if full else None,
            "seeds": len(runs), "depth": plus_minus(runs, "mean_depth", 2), "bound": possible(runs, full or runs),
            "examples": f"{runs[0]['train_examples']:,} / {runs[0]['examples']:,}", "paper": paper,
        })  # fmt: skip
    columns = {
        "task": "task", "method": "method", "accuracy": "accuracy, %", "gain": "against full depth", "seeds": "seeds",
        "depth": "mean depth", "bound": "speed-up possible", "examples": "training / test examples",
        "paper": "paper (BERT-base)",
    }  # fmt: skip
    text = " ".join(filter(None, [recipe.get("note"), reading(found), averages(found), _missing(groups)]))
    return Outcome(rows, columns, text, {})


def averages(found: Mapping[str, list[dict[str, Any]]]) -> str:
    """How far each method is from full depth on average over the tasks that it was trained on."""
    gains: dict[str, list[float]] = {}
    for name, runs in found.items():
        task, method = name.split(": ", 1)
        if method != FULL and f"{task}: {FULL}" in found:
            gains.setdefault(method, []).append(gain(runs, found[f"{task}: {FULL}"]))
    said = [f"{method} {sum(each) / len(each):+.2f} ({len(each)})" for method, each in gains.items()]
    return f"Points against full depth, on average over so many tasks: {'; '.join(said)}." if said else ""


def _missing(groups: Mapping[str, list[Job]]) -> str:
    """What there is no run of yet, task by task."""
    methods: dict[str, list[str]] = {}
    for name, group in groups.items():
        task, method = name.split(": ", 1)
        methods.setdefault(task, []).extend([] if group else [method])
    every = len({name.split(": ", 1)[1] for name in groups})
    said = [f"{task} ({'all' if len(each) == every else ', '.join(each)})" for task, each in methods.items() if each]
    return f"Not trained yet: {', '.join(said)}." if said else ""


def possible(runs: list[dict[str, Any]], full: list[dict[str, Any]]) -> str:
    """How many times fewer operations than at full depth, also for an encoder that was cut."""
    return f"{spread(full, 'operations')[0] / spread(runs, 'operations')[0]:.2f}"


def _percent(runs: list[dict[str, Any]]) -> str:
    return plus_minus([{**run, "accuracy": 100 * run["accuracy"]} for run in runs], "accuracy", 2)


def reading(found: Mapping[str, list[dict[str, Any]]]) -> str:
    """What the figures say; a control that does as well as a method, with the same seeds, is named."""
    said = ["The speed-up that is possible follows from the operations on 32 test sentences."]
    for task in dict.fromkeys(name.split(": ", 1)[0] for name in found):
        of_task = {name.split(": ", 1)[1]: runs for name, runs in found.items() if name.startswith(f"{task}: ")}
        controls = {name: runs for name, runs in of_task.items() if name.startswith("control")}
        if not controls:
            continue
        control = max(controls, key=lambda name: spread(controls[name], "accuracy")[0])
        methods = {
            name: spread(same, "accuracy")[0] for name, runs in of_task.items()
            if ("estimation" in name or name == "composed") and (same := of_same_seeds(controls[control], runs))
        }  # fmt: skip
        if methods:
            best, reached = max(methods, key=methods.__getitem__), spread(controls[control], "accuracy")[0]
            said.append(
                f"On {task} {control.removeprefix('control: ')} ({100 * reached:.2f}) "
                f"{'does as well as or better than' if reached >= methods[best] else 'stays below'} {best} "
                f"({100 * methods[best]:.2f}, the same seeds)."
            )
    return " ".join(said)
