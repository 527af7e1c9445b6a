"""The test images of a trained run: made harder, and in galleries."""

from typing import Any

import torch

from ponderosa.measure import gallery
from ponderosa.measure.probes import expected_steps
from ponderosa.tasks.base import Task
from ponderosa.tasks.images import ImageClassification
from ponderosa.tasks.images.harder import Harder
from ponderosa.training.experiment import load
from ponderosa.training.jobs import Job

EXAMPLES = 8
"""Images whose tokens are shown."""


def images(task: Task) -> ImageClassification:
    """The task, if it is one of images."""
    if not isinstance(task, ImageClassification):
        raise TypeError(f"the task is {type(task).__name__}: one of images is needed, as MNIST or CIFAR10")
    return task


def made_harder(task: Task, harder: Harder) -> ImageClassification:
    """The same images, those of the test made harder in this way."""
    return images(task).made(harder)


def by_steps(job: Job) -> dict[str, Any]:
    """The images by the steps that they took, or that are expected where steps are drawn."""
    experiment = load(job.folder)
    task = images(experiment.task)
    batch = task.batch("test", 0, job.examples or task.size("test"))
    steps = expected_steps(experiment.net, task, len(batch))
    return {
        "images-by-steps": gallery.in_order(task, batch.x, steps),
        "easiest-and-hardest": gallery.extremes(task, batch, steps, task.classes),
    }


@torch.no_grad()
def of_tokens(job: Job) -> dict[str, Any]:
    """The depths of the first images' tokens, over the images."""
    experiment = load(job.folder)
    batch = experiment.task.batch("test", 0, EXAMPLES)
    found = experiment.net.eval()(batch.x, key=batch.key)
    return {"token-depths": gallery.token_depths(experiment.task, batch.x, found.steps)}
