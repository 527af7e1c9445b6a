"""How a network spends its steps: on what is hard, too long, or not long enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ponderosa.halting.exits import log_probabilities
from ponderosa.halting.knob import Knob
from ponderosa.measure.batches import Data, read, right, scored
from ponderosa.measure.cost import evaluating, unhalted
from ponderosa.measure.evaluate import Evaluation, adapts, mean_of_tokens
from ponderosa.measure.frame import Frame
from ponderosa.measure.player import player
from ponderosa.measure.ranks import rank_correlation
from ponderosa.measure.sweep import Score, network

FEW = 20
"""Fewer examples say nothing of how well an answer's confidence fits."""
CLASSES = 50
"""More of them are no table to read."""
GROUP = {"examples": "examples", "accuracy": "accuracy", "steps": "mean steps", "first_right": "first right step"}


@dataclass(frozen=True)
class Allocation:
    """Where the steps went. An example is right at a step if the answer given there is."""

    seen: Evaluation
    first_right: Tensor
    """The first step at which each example is right `[examples]`; 0 where it never is."""
    label: Tensor
    """The class of each example `[examples]`."""
    confidence: Tensor
    """The probability of the answer given `[examples]`."""
    overthinking: float
    """The share of examples that were right at an earlier step than their last, and wrong in the end."""
    underthinking: float
    """The share of examples that were wrong in the end, and would have been right at a later step."""

    @property
    def oracle_accuracy(self) -> float:
        """Of an oracle that halts each example at its first right step."""
        return float((self.first_right > 0).float().mean())

    @property
    def regret(self) -> float:
        """How many steps an example goes on after that oracle would have halted it, on average.

        One that halts before counts as none (what it loses is accuracy: `underthinking`), and so does one that is never right:
        there is no step at which the oracle would halt it.
        """
        beyond = (self.seen.steps - self.first_right).clamp_min(0)
        return float(torch.where(self.first_right > 0, beyond, 0.0).mean())

    @property
    def fairness(self) -> dict[str, float | None]:
        """The rank correlation of steps with the difficulty that the task names, and with the first right step."""
        known = self.first_right > 0
        first = rank_correlation(self.seen.steps[known], self.first_right[known]) if known.any() else None
        return {"difficulty": self.seen.fairness(), "first right step": first}

    def by_difficulty(self) -> Frame:
        """The figures of each difficulty, the easiest first; none where no example is harder than another."""
        frame = self._grouped(self.seen.difficulty, "difficulty")
        return frame if len(frame) > 1 else Frame([], {})

    def by_class(self, names: Sequence[str] | None = None) -> Frame:
        """The figures of each class; none where there are too many to read."""
        frame = self._grouped(self.label, "class")
        for row in frame:
            row["class"] = row["class"] if names is None else names[int(row["class"])]
        return frame

    def by_depth(self) -> Frame:
        """For the examples that halted at each step: how many, how good, and how far confidence is from accuracy."""
        depth = self.seen.steps.round().long()
        frame = self._grouped(depth, "step")
        for row in frame:
            chosen = depth == row["step"]
            enough = int(chosen.sum()) >= FEW
            row["calibration_error"] = calibration_error(self.confidence[chosen], self.seen.score[chosen]) if enough else None
        return Frame(frame, {"step": "halted at step", **GROUP, "calibration_error": "calibration error"})

    def _grouped(self, of: Tensor, name: str) -> Frame:
        levels, rows = of.unique().tolist(), []
        for level in levels if len(levels) <= CLASSES else []:
            chosen = of == level
            first = self.first_right[chosen & (self.first_right > 0)].float()
            rows.append({
                name: level, "examples": int(chosen.sum()), "accuracy": float(self.seen.score[chosen].mean()),
                "steps": float(self.seen.steps[chosen].mean()), "first_right": float(first.mean()) if len(first) else None,
            })  # fmt: skip
        return Frame(rows, {name: name, **GROUP})

    def summary(self) -> dict[str, Any]:
        """The figures in short."""
        return {
            "accuracy": self.seen.accuracy, "mean_steps": self.seen.mean_steps, "oracle_accuracy": self.oracle_accuracy,
            "regret": self.regret, "overthinking": self.overthinking, "underthinking": self.underthinking,
            "calibration_error": calibration_error(self.confidence, self.seen.score),
            "fairness": self.fairness["difficulty"], "fairness_first_right": self.fairness["first right step"],
            "collapse": self.seen.collapse(),
        }  # fmt: skip

    def __repr__(self) -> str:
        facts = "\n".join(
            f"{key.replace('_', ' '):22} {value:.4g}" for key, value in self.summary().items() if isinstance(value, float)
        )
        warning = f"\nwarning: {self.seen.collapse()}" if self.seen.collapse() else ""
        return "\n\n".join([f"{facts}{warning}", *(repr(frame) for frame in self._shown())])

    def _repr_html_(self) -> str:
        from ponderosa.measure import html

        facts = {key.replace("_", " "): value for key, value in self.summary().items()}
        return html.definitions(facts, "allocation") + "".join(frame._repr_html_() for frame in self._shown())

    def _shown(self) -> list[Frame]:
        return [frame for frame in (self.by_difficulty(), self.by_depth()) if frame]


def allocation(model: Any, data: Data, *, score: Score = right, progress: bool = False) -> Allocation:
    """How a network spends its steps on the examples of a data loader.

    The answer at a step is that of the network stopped there: at most so many steps. A mechanism that answers with one step's
    state does not weigh in the earlier ones, so all its answers come from one run.
    """
    from tqdm import tqdm

    net, limits = network(model), list(range(1, network(model).full_depth + 1))
    given, each, steps, labels, difficulty, confidence = [], [], [], [], [], []
    with evaluating(net):
        stopped = unhalted(net, net.full_depth).eval() if net.halting.hard else net
        for batch in read(tqdm(data, desc="every step", unit="batch", disable=not progress), net):
            (output,), (taken,) = player(net, batch)(None, [None])
            outputs, _ = player(stopped, batch, progress)(Knob(stopped, "max_steps", net.full_depth, 1), limits)
            given.append(scored(score, output, batch.y))
            each.append(torch.stack([scored(score, one, batch.y) for one in outputs]))
            steps.append((taken if taken.ndim == 1 else mean_of_tokens(taken)).float().cpu())
            labels.append(batch.y.reshape(len(batch), -1)[:, 0].cpu())
            difficulty.append(batch.difficulty.cpu())
            confidence.append(log_probabilities(output).amax(-1).exp().reshape(len(batch), -1).mean(1).cpu())
    seen = Evaluation(torch.cat(given), torch.cat(steps), torch.cat(difficulty), net.full_depth, adapts(net))
    return _allocation(seen, torch.cat(each, 1) > 0.5, torch.cat(labels), torch.cat(confidence))


def _allocation(seen: Evaluation, correct: Tensor, label: Tensor, confidence: Tensor) -> Allocation:
    """From whether each example is right at each step `[steps, examples]`."""
    n = torch.arange(1, len(correct) + 1)[:, None]
    wrong, last = seen.score <= 0.5, seen.steps.round()
    first = torch.where(correct.any(0), correct.to(torch.uint8).argmax(0) + 1, 0)
    over = wrong & (correct & (n < last)).any(0)
    under = wrong & (correct & (n > last)).any(0)
    return Allocation(seen, first, label, confidence, float(over.float().mean()), float(under.float().mean()))


def calibration_error(confidence: Tensor, score: Tensor, bins: int = 10) -> float:
    """The expected calibration error: how far confidence and accuracy lie apart in bins of equal width, on average.

    >>> round(calibration_error(torch.tensor([0.9, 0.9, 0.6, 0.6]), torch.tensor([1.0, 1.0, 1.0, 0.0])), 4)
    0.1
    """
    place = (confidence.double() * bins).long().clamp_max(bins - 1)
    gap = torch.zeros(bins, dtype=torch.float64).scatter_add_(0, place, confidence.double() - score.double())
    return float(gap.abs().sum() / max(len(score), 1))
