"""How good a network is on a task, and how many steps it took, by difficulty."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ponderosa.measure.batches import batches, first_parameter, share, to_like
from ponderosa.measure.ranks import rank_correlation
from ponderosa.ponder import Ponder
from ponderosa.solution import Solution
from ponderosa.tasks.base import Split, Task


@dataclass
class Evaluation:
    """One row per example: its score, its mean number of steps and its difficulty."""

    score: Tensor
    steps: Tensor
    difficulty: Tensor
    max_steps: int
    adaptive: bool

    @property
    def accuracy(self) -> float:
        return float(self.score.mean())

    @property
    def mean_steps(self) -> float:
        return float(self.steps.mean())

    def by_difficulty(self) -> list[dict[str, Any]]:
        """The mean score and steps for each difficulty, the easiest first; nothing where no example is harder than another."""
        rows, levels = [], self.difficulty.unique().tolist()
        for level in levels if len(levels) > 1 else []:
            chosen = self.difficulty == level
            rows.append({
                "difficulty": level, "examples": int(chosen.sum()),
                "accuracy": float(self.score[chosen].mean()), "steps": float(self.steps[chosen].mean()),
            })  # fmt: skip
        return rows

    def fairness(self) -> float | None:
        """How steps follow difficulty: their rank correlation, or None where all examples take equally many steps."""
        return rank_correlation(self.steps, self.difficulty)

    def histogram(self) -> list[float]:
        """The share of examples that halted at step 1, 2, ..., max_steps."""
        counts = torch.bincount(self.steps.round().long() - 1, minlength=self.max_steps)
        return (counts / len(self.steps)).tolist()

    def collapse(self) -> str | None:
        """What is wrong if the network does not adapt: (nearly) all examples take the same number of steps."""
        if not self.adaptive or self.max_steps == 1:
            return None
        share, index = torch.tensor(self.histogram()).max(0)
        if share < 0.999:
            return None
        step = int(index) + 1
        if step == self.max_steps:
            return f"collapsed: every example ran to the limit of {step} steps"
        if step == 1:
            return "collapsed: every example halted after the first step"
        return f"every example took {step} steps: the depth does not adapt"

    def summary(self) -> dict[str, Any]:
        """The figures that a table or a report shows."""
        return {
            "accuracy": self.accuracy, "mean_steps": self.mean_steps, "max_steps": self.max_steps,
            "examples": len(self.score), "by_difficulty": self.by_difficulty(), "histogram": self.histogram(),
            "collapse": self.collapse(), "fairness": self.fairness(),
        }  # fmt: skip


def evaluate(
    net: Ponder, task: Task, *, split: Split = "test", examples: int = 10_000, batch_size: int = 1000, seed: int = 0,
    depth: Tensor | None = None, rank: int = 0, ranks: int = 1,
) -> Evaluation:  # fmt: skip
    """Evaluate on the first `examples` of a split, or on all there are, with halted examples no longer computed.

    `depth` plans the steps of each example's units `[examples, ...]`, for a halting that takes a plan.
    On several devices each evaluates its share of every batch.
    """
    if depth is not None and ranks > 1:
        raise ValueError("depths are planned for all examples: evaluate them on one device")
    like = first_parameter(net)
    scores, steps, difficulties = [], [], []
    training = net.training
    net.eval()
    try:
        for index, batch in enumerate(batches(task, split, examples, batch_size, seed)):
            batch = to_like(share(batch, rank, ranks), like)
            planned = None if depth is None else depth[index * batch_size :][: len(batch)].to(like.device)
            with torch.no_grad():
                solution = net(batch.x, mask=batch.mask, key=batch.key, depth=planned)
            scores.append(task.score(solution.output, batch.y))
            steps.append(example_steps(solution))
            difficulties.append(batch.difficulty)
    finally:
        net.train(training)
    return Evaluation(
        torch.cat(scores).cpu(), torch.cat(steps).cpu(), torch.cat(difficulties).cpu(), net.full_depth, adapts(net)
    )


def adapts(net: Ponder) -> bool:
    """Whether examples may take different numbers of steps; a batch-level decision is one for all."""
    return net.halting.adaptive and net.halting.unit != "batch"


def example_steps(solution: Solution) -> Tensor:
    """The steps of each example `[batch]`; the mean over its tokens where they halt on their own."""
    depth = solution.expected_steps.detach() if solution.distribution else solution.steps.to(solution.weights.dtype)
    return depth if depth.ndim == 1 else mean_of_tokens(depth)


def mean_of_tokens(depth: Tensor) -> Tensor:
    """The mean `[..., batch]` of the steps of an example's tokens `[..., batch, token]`; padding took none."""
    return depth.sum(-1) / (depth > 0).sum(-1).clamp_min(1)
