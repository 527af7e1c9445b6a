"""Hyper-UT, figure 5: a T5 on pointer-value retrieval as text, with and without a scratch-pad, beside networks that adapt
their depth."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from ponderosa.reproduce import hyper_ut
from ponderosa.reproduce.hyper_ut import Runs, Spread, average, finding, guessing, of_task, over_seeds, written
from ponderosa.reproduce.recipe import Outcome, capped, folder_name, read_recipe, results
from ponderosa.tasks import CPVR
from ponderosa.training.jobs import Job
from ponderosa.training.settings import Settings
from ponderosa.training.text_to_text import TextToTextRun, build_task, plain_text

shows_part = True  # also of runs that are still in training

WITH, WITHOUT = "with scratch-pad", "without scratch-pad"
LINES = {
    "T5 pad, last number": (WITH, "last"),
    "T5 pad, label": (WITH, "label"),
    "T5 without pad": (WITHOUT, "label"),
}
"""What the paper draws: which run, and what of its answers is looked at."""
LEARNED = 0.9
"""The accuracy on the hops of training below which there is nothing to generalise."""


def jobs(recipe: Mapping[str, Any], root: Path) -> dict[str, list[Job]]:
    """Every run on every task, and the networks of another recipe that stand beside them."""
    found = {
        f"{task}: {name}": [_job(recipe, task, name, seed, root) for seed in recipe["seeds"]]
        for task in recipe["tasks"]
        for name in recipe.get("models", recipe["runs"])
    }
    return found | (_beside(recipe, recipe["beside"], root) if recipe.get("beside") else {})


def _beside(recipe: Mapping[str, Any], beside: Mapping[str, Any], root: Path) -> dict[str, list[Job]]:
    """The same sequences for networks that read numbers."""
    other = read_recipe(beside["recipe"])
    if "at_most" in recipe:
        other = capped(other, recipe["at_most"])
    tasks = {}
    for name in recipe["tasks"]:
        task = numbers(recipe, name)
        given = {"length": task.length, "values": task.values}
        tasks[name] = {**other["tasks"][name], "task": {"class_path": "ponderosa.tasks.CPVR", "init_args": given}}
    return hyper_ut.jobs(other | {"models": beside["models"], "seeds": recipe["seeds"], "tasks": tasks}, root)


def _job(recipe: Mapping[str, Any], task: str, name: str, seed: int, root: Path) -> Job:
    run, settings = configuration(recipe, task, name, seed)
    folder = root / folder_name(f"{task}: {name}") / f"seed-{seed}"
    return Job(folder, plain_text(run, settings), settings.batches, recipe["examples"], command="finetune")


def configuration(recipe: Mapping[str, Any], task: str, name: str, seed: int) -> tuple[TextToTextRun, Settings]:
    given = {**recipe["common"], **recipe["tasks"][task], **recipe["runs"][name], "task": task, "seed": seed}
    of_run = {f.name for f in fields(TextToTextRun)}
    run = TextToTextRun(**{k: v for k, v in given.items() if k in of_run})
    return run, Settings(**{k: v for k, v in given.items() if k not in of_run})


def numbers(recipe: Mapping[str, Any], task: str) -> CPVR:
    """The task behind the texts."""
    return build_task(configuration(recipe, task, next(iter(recipe["runs"])), 0)[0]).numbers


def outcome(recipe: Mapping[str, Any], groups: Mapping[str, list[Job]]) -> Outcome:
    from ponderosa.reproduce.hyper_ut_plots import accuracy_by_hops

    found = {name: results(group) for name, group in groups.items()}
    rows: list[dict[str, Any]] = []
    text, figures = [SPENT, about(recipe)], dict[str, Any]()
    for name in recipe["tasks"]:
        task, seen = numbers(recipe, name), of_task(found, name)
        if not (seen.get(WITH) or seen.get(WITHOUT)):
            continue
        near, far = range(1, task.train_hops + 1), range(task.train_hops + 1, task.test_hops + 1)
        guess = {"by_difficulty": guessing(task, recipe["examples"])}
        lines = {line: (seen[run], key) for line, (run, key) in LINES.items() if run in seen}
        lines |= {model: (runs, "accuracy") for model, runs in seen.items() if model not in (WITH, WITHOUT)}
        rows += [row(name, line, runs, key, [*near, *far]) for line, (runs, key) in lines.items()]
        rows.append(row(name, "guessing", [guess], "accuracy", [*near, *far]))
        text.append(reading(name, lines, guess, near, far))
        points = {line: [standard_error(runs, key, h) for h in (*near, *far)] for line, (runs, key) in lines.items()}
        figures[name] = accuracy_by_hops(points, guess, near)
    most = max(numbers(recipe, name).test_hops for name in recipe["tasks"])
    columns = {
        "task": "task", "model": "model", "rounds": "rounds", "parameters": "parameters", "1": "1 hop",
        **{str(h): f"{h} hops" for h in range(2, most + 1)}, "spent": "tokens or layers, 1 hop", "spent_far": f"{most} hops",
    }  # fmt: skip
    return Outcome(rows, columns, "\n\n".join(text), figures)


def about(recipe: Mapping[str, Any]) -> str:
    """What was trained, and what that can say about the paper."""
    if model := recipe["common"].get("model"):
        said = f"The paper fine-tunes T5-small, ours is {model}."
    else:
        said = (
            "The paper fine-tunes T5-small, pretrained; ours is a small T5 trained from nothing on the task alone, so nothing "
            "here confirms or refutes what the paper says of pretrained models."
        )
    if recipe["runs"][WITH].get("hide_label"):
        said += (
            " With a scratch-pad, the decoder is shown another example's label in training, which the paper does not do: shown "
            "the true one, a T5 from nothing seems to copy it to the end of the pad instead of looking the number up. So pads "
            "here owe nothing to the labels before them, and an exact pad behind a wrong label is made likelier by it."
        )
    return said


SPENT = (
    "Accuracy on the test, mean ± standard error over rounds of training, one for each seed, as in the paper (in the findings "
    "below ± is the standard deviation). What a T5 with a scratch-pad spends on an example are the tokens that it writes, each "
    "through all layers of its decoder; a UT spends layers."
)


def standard_error(runs: Runs, key: str, hops: int) -> Spread | None:
    """The mean over rounds, and the standard deviation of that mean."""
    spread = over_seeds(average(run, [hops], key) for run in runs)
    return spread and spread._replace(deviation=spread.deviation / math.sqrt(spread.seeds))


def row(task: str, line: str, runs: Runs, key: str, hops: list[int]) -> dict[str, Any]:
    """A line of the figure as numbers."""
    spent = "tokens" if key in ("label", "last") else "steps"
    known = spent in runs[0]["by_difficulty"][0]
    cost = {h: written(standard_error(runs, spent, h), 1) if known else None for h in (hops[0], hops[-1])}
    return {
        "task": task, "model": line, "rounds": len(runs) if known else None, "parameters": runs[0].get("parameters"),
        **{str(h): written(standard_error(runs, key, h)) for h in hops}, "spent": cost[hops[0]], "spent_far": cost[hops[-1]],
    }  # fmt: skip


def reading(task: str, lines: Mapping[str, tuple[Runs, str]], guess: Mapping[str, Any], near: range, far: range) -> str:
    """Which of the paper's findings hold here, from the figures alone."""

    def mean(line: str, hops: Iterable[int]) -> list[float]:
        runs, key = lines.get(line, ([], ""))
        return [average(run, hops, key) for run in runs]

    last, label, alone = LINES
    chance, beside = average(guess, far), [line for line in lines if line not in LINES]
    parts = [
        *learned(lines, near),
        *(finding(f"{line} is beyond chance (against the best guess)", mean(line, far), chance) for line in LINES),
        *(finding(f"{line} falls with hops ({far[0]} against {far[-1]})", mean(line, far[:1]), mean(line, far[-1:]))
          for line in LINES),
        finding("a scratch-pad helps, by its last number (against none)", mean(last, far), mean(alone, far)),
        finding("a scratch-pad hurts the label before it (none against with)", mean(alone, far), mean(label, far)),
        *(finding(f"not in the paper: {line} goes further than the pad's last number", mean(line, far), mean(last, far))
          for line in beside),
    ]  # fmt: skip
    about = f"On {task}, {far[0]} to {far[-1]} hops after training on {near[0]} to {near[-1]}:\n"
    return "\n".join([about, *(f"- {part}" for part in parts)])


def learned(lines: Mapping[str, tuple[Runs, str]], near: range) -> list[str]:
    """How far each got on what it was trained on, and which of them have nothing to generalise from."""
    said = []
    for line, (runs, key) in lines.items():
        spread = over_seeds(average(run, near, key) for run in runs)
        missed = spread is not None and spread.mean < LEARNED
        why = (
            ": it did not learn these, so what it does beyond them is guessing, and guessing gets easier with hops"
            if missed
            else ""
        )
        said.append(f"{line} on {near[0]} to {near[-1]} hops: {written(spread)}{why}.")
    return said
