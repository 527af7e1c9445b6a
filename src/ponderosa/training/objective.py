"""What the loop trains, as a module: data-parallel training wraps it, so that it sees the loss's whole graph."""

from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ponderosa.measure.evaluate import Evaluation, evaluate, example_steps
from ponderosa.ponder import Ponder
from ponderosa.solution import Solution
from ponderosa.tasks.base import Batch, Task


class Learner(nn.Module, ABC):
    """A network and its task: from a batch to its loss, and from the validation set to what the network is worth."""

    net: nn.Module
    task: Task
    title: str
    """What the progress bar says."""
    some_unused: bool
    """Whether a batch may leave some parameters without a gradient."""

    @abstractmethod
    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The loss, and the means over the batch that the log shows, in the order of `names`."""

    @abstractmethod
    def names(self) -> list[str]:
        """Of what the log shows: loss, accuracy and steps first."""

    @abstractmethod
    def validate(self, examples: int, batch_size: int, rank: int, ranks: int) -> Evaluation:
        """What the network does on the first examples of the validation set; on several devices, on this one's share."""


class Objective(Learner):
    """A `Ponder` network, trained by the loss that its halting weighs."""

    net: Ponder

    def __init__(self, net: Ponder, task: Task):
        super().__init__()
        self.net, self.task = net, task
        self.title = f"{type(task).__name__.lower()} {type(net.halting).__name__}"
        # a layer that no unit of one device reached has no gradient there: the others must not wait for it
        self.some_unused = not net.step.tied or isinstance(net.head, nn.ModuleList) or net.max_steps == 1

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        solution = self.net(batch.x, mask=batch.mask, key=batch.key)
        loss = self.loss(solution, batch)
        with torch.no_grad():
            score = self.task.score(solution.output, batch.y).mean()
            terms = self.net.halting.terms(solution).values()
            return loss, torch.stack([loss.detach(), score, example_steps(solution).mean(), *terms])

    def loss(self, solution: Solution, batch: Batch) -> Tensor:
        """What is made small."""
        return self.net.loss(solution, batch.y, self.task.criterion)

    def names(self) -> list[str]:
        return ["loss", "accuracy", "steps", *self.net.halting.term_names]

    def validate(self, examples: int, batch_size: int, rank: int, ranks: int) -> Evaluation:
        return evaluate(
            self.net, self.task, split="validation", examples=examples, batch_size=batch_size, rank=rank, ranks=ranks
        )


TEMPERATURE = 2.0
"""What answers are divided by before they are compared: a teacher that knows its texts by heart is certain of one class, and
what it thinks of the others would not show (Hinton et al., 2015)."""


class Taught(Objective):
    """Learns from labels and, as much, from what a teacher answers: how likely the other classes are tells more than a label.

    Args:
        answers: of the teacher to every training example, by the number that is its key `[examples, classes]`.
    """

    def __init__(self, net: Ponder, task: Task, answers: Tensor):
        super().__init__(net, task)
        self.register_buffer("probabilities", (answers / TEMPERATURE).softmax(-1), persistent=False)
        self.probabilities: Tensor

    def loss(self, solution: Solution, batch: Batch) -> Tensor:
        def both(outputs: Tensor, targets: Tensor, reduction: str = "mean") -> Tensor:
            key = batch.key.repeat(len(outputs) // len(batch))  # the answers of all steps come one after the other
            taught = F.cross_entropy(outputs / TEMPERATURE, self.probabilities[key], reduction=reduction)
            # gradients of answers that were divided are smaller by as much, twice
            return self.task.criterion(outputs, targets, reduction=reduction) + TEMPERATURE**2 * taught

        return self.net.loss(solution, batch.y, both)
