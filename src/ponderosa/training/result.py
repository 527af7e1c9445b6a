"""What came of a run: the figures that tables, reports and other commands read."""

from typing import Any, Protocol

import torch

from ponderosa.measure.cost import microseconds, operations
from ponderosa.measure.evaluate import evaluate
from ponderosa.ponder import Ponder
from ponderosa.tasks.base import Task
from ponderosa.training.checkpoint import Progress
from ponderosa.training.experiment import Experiment
from ponderosa.training.run import RunFolder

TIMED = 256
"""Examples in the batch that operations and time are measured on."""


class Trained(Protocol):
    """A network and the task that it was trained on."""

    @property
    def task(self) -> Task: ...
    @property
    def net(self) -> Ponder: ...


def measure(experiment: Trained, *, examples: int = 10_000, batch_size: int = 1000) -> dict[str, Any]:
    """Accuracy, steps, operations and time on the test set, as the network halts and at full depth."""
    net, task = experiment.net, experiment.task
    seen = evaluate(net, task, examples=examples, batch_size=batch_size)
    batch = task.batch("test", 0, min(TIMED, task.at_once))
    ((halted, full),) = microseconds([net], batch)
    return {
        **seen.summary(), "asked_examples": examples,
        "operations": operations(net, batch), "full_operations": operations(net, batch, full_depth=True),
        "microseconds": halted, "full_microseconds": full,
    }  # fmt: skip


def result(experiment: Experiment, folder: RunFolder, progress: Progress, **options: Any) -> dict[str, Any]:
    """The figures of a trained run, and its training curve."""
    net = experiment.net
    return {
        "name": type(net.halting).__name__, "seed": experiment.settings.seed,
        **measure(experiment, **options),
        "parameters": sum(p.numel() for p in net.parameters()),
        "batches": progress.batch, "train_seconds": progress.seconds, "threads": torch.get_num_threads(),
        "folder": str(folder.path), "curve": folder.curve(), "curriculum": folder.curriculum(),
    }  # fmt: skip
