"""What LAC's table 2 and figure 1 share: the runs on CIFAR-10, and each one's answers to the test images."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ponderosa.measure.evaluate import evaluate
from ponderosa.reproduce.recipe import expand, kept
from ponderosa.training.experiment import load
from ponderosa.training.jobs import Job


def jobs(recipe: Mapping[str, Any], root: Path) -> dict[str, list[Job]]:
    """The recipe's runs, and some of them with smaller patches or wider."""
    found = expand(recipe, recipe["runs"], root)
    for name, options in recipe["variants"].items():
        found |= _variant(recipe, root, name, **options)
    return found


def _variant(
    recipe: Mapping[str, Any], root: Path, name: str, runs: Sequence[str], seeds: Sequence[int],
    step: Mapping[str, Any] | None = None, **options: Any,
) -> dict[str, list[Job]]:  # fmt: skip
    """Some of the runs with other options, of the step and of the run."""

    def changed(run: Mapping[str, Any]) -> dict[str, Any]:
        return {**run, **options, "step": {**run["step"], "init_args": {**run["step"]["init_args"], **(step or {})}}}

    few = {**recipe, "seeds": seeds[: len(recipe["seeds"])]}
    return expand(few, {f"{run}, {name}": changed(recipe["runs"][run]) for run in runs}, root)


def baseline(recipe: Mapping[str, Any], name: str) -> str:
    """The run without halting that a run is held against."""
    model = name.removeprefix("control: ").split()[0].rstrip(",")
    return ", ".join(filter(None, [model, variant(recipe, name)]))


def variant(recipe: Mapping[str, Any], name: str) -> str:
    """Which of the recipe's variants a run is of; "" for its own size."""
    return next((each for each in recipe["variants"] if name.endswith(f", {each}")), "")


def scores(group: list[Job]) -> Tensor:
    """Whether each test image was recognised `[seed, example]`."""
    return torch.stack([_right(job) for job in group])


def _right(job: Job) -> Tensor:
    """Kept in the run's folder as the numbers of the images that were not."""
    found = kept(job.folder / "wrong.json", {"examples": job.examples}, partial(_look, job))
    right = torch.ones(found["count"])
    right[found["wrong"]] = 0
    return right


def _look(job: Job) -> dict[str, Any]:
    experiment = load(job.folder)
    seen = evaluate(experiment.net, experiment.task, examples=job.examples or 10_000)
    return {"count": len(seen.score), "wrong": (seen.score < 1).nonzero()[:, 0].tolist()}
