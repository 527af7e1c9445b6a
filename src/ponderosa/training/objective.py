"""The loss as a module: what data-parallel training wraps, so that it sees the loss's whole graph."""

import torch
from torch import Tensor, nn

from ponderosa.measure.evaluate import example_steps
from ponderosa.ponder import Ponder
from ponderosa.tasks.base import Batch, Task


class Objective(nn.Module):
    """From a batch to its loss, and to the sums that the log shows."""

    def __init__(self, net: Ponder, task: Task):
        super().__init__()
        self.net, self.task = net, task

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The loss, and loss, score, steps and the mechanism's own terms as means over the batch `[3 + terms]`."""
        solution = self.net(batch.x, mask=batch.mask, key=batch.key)
        loss = self.net.loss(solution, batch.y, self.task.criterion)
        with torch.no_grad():
            score = self.task.score(solution.output, batch.y).mean()
            terms = self.net.halting.terms(solution).values()
            return loss, torch.stack([loss.detach(), score, example_steps(solution).mean(), *terms])

    def names(self) -> list[str]:
        return ["loss", "accuracy", "steps", *self.net.halting.term_names]
