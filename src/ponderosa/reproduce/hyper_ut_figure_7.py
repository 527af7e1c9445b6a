"""Hyper-UT, figure 7: does depth alone help a plain transformer with more hops than in training?"""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from ponderosa.reproduce import hyper_ut
from ponderosa.reproduce.hyper_ut import average, build_task, finding, guessing, of_task, over_seeds, unlearned, written
from ponderosa.reproduce.recipe import Outcome, results
from ponderosa.training.jobs import Job

DEPTHS = ("T12", "T32", "T64")
"""The shallowest first."""
shows_part = True  # also of runs that are still in training


def jobs(recipe: Mapping[str, Any], root: Path) -> dict[str, list[Job]]:
    return hyper_ut.jobs(recipe, root)


def outcome(recipe: Mapping[str, Any], groups: Mapping[str, list[Job]]) -> Outcome:
    from ponderosa.reproduce.hyper_ut_plots import by_hops

    found = {name: results(group) for name, group in groups.items()}
    rows, text, figures = [], [], {}
    for name in recipe["tasks"]:
        task, seen = build_task(recipe, name), of_task(found, name)
        if not seen:
            continue
        hops, near = range(1, task.test_hops + 1), range(1, task.train_hops + 1)
        guess = {"by_difficulty": guessing(task, recipe["examples"])}
        for model, runs in seen.items():
            accuracy = {str(h): written(over_seeds(average(run, [h]) for run in runs)) for h in hops}
            rows.append({"task": name, "model": model, "layers": runs[0]["max_steps"], "seeds": len(runs), **accuracy})
        rows.append({"task": name, "model": "guessing", **{str(h): f"{average(guess, [h]):.2f}" for h in hops}})
        far = range(task.train_hops + 1, task.test_hops + 1)
        beyond = {model: [average(run, far) for run in runs] for model, runs in seen.items()}
        text += [
            finding(f"On {name}, more layers add accuracy beyond {near[-1]} hops ({deep} against {shallow})",
                    beyond.get(deep, []), beyond.get(shallow, []))
            for shallow, deep in pairwise(DEPTHS)
        ]  # fmt: skip
        text += filter(None, [unlearned(name, seen, guess, near)])
        figures[name] = by_hops(seen, guess, near)
    columns = {"task": "task", "model": "model", "layers": "layers", "seeds": "seeds"} | {str(h): f"{h} hops" for h in hops}
    return Outcome(rows, columns, " ".join(text), figures)
