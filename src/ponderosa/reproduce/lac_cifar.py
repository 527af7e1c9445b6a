"""What LAC's table 2 and figure 1 share: the runs on CIFAR-10, and each one's answers to the test images."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ponderosa.measure.evaluate import evaluate
from ponderosa.reproduce.recipe import expand, kept
from ponderosa.training.experiment import load
from ponderosa.training.jobs import Job

FINE = ", patch 4"


def jobs(recipe: Mapping[str, Any], root: Path) -> dict[str, list[Job]]:
    """The recipe's runs, and some of them with smaller patches."""
    fine = recipe["patch_4"]
    sizes = {"batches": fine["batches"], "batch_size": fine["batch_size"], "patch": 4}
    more = {**recipe, "seeds": fine["seeds"][: len(recipe["seeds"])]}
    return expand(recipe, recipe["runs"], root) | expand(
        more, {f"{name}{FINE}": {**recipe["runs"][name], **sizes} for name in fine["runs"]}, root
    )


def baseline(name: str) -> str:
    """The run without halting that a run is held against."""
    model = name.removeprefix("control: ").split()[0].rstrip(",")
    return model + FINE if name.endswith(FINE) else model


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
