"""Early exits: a unit leaves at the first step whose own answer is good enough.

Confidence and entropy as in BranchyNet (Teerapittayanon et al., 2016), patience as in PABEE (Zhou et al., 2020).
Training runs every step and sums the losses of all heads; over a stack of layers each has a head of its own.
"""

from abc import abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor

from ponderosa.halting.base import Halting, Memory, Unit, Units, Verdict, check_choice
from ponderosa.halting.knob import Knob
from ponderosa.halting.losses import Criterion, unit_losses
from ponderosa.solution import Solution


def log_probabilities(logits: Tensor) -> Tensor:
    """Log-probabilities `[..., classes]`; a single logit is the log-odds of the second of two classes."""
    return F.logsigmoid(torch.cat([-logits, logits], -1)) if logits.shape[-1] == 1 else F.log_softmax(logits, -1)


def entropy(logits: Tensor) -> Tensor:
    """The entropy of the answer in nats `[...]`.

    >>> entropy(torch.zeros(1, 4))
    tensor([1.3863])
    """
    log_p = log_probabilities(logits)
    return -(log_p.exp() * log_p).sum(-1)


class Exit(Halting):
    """What the three exits share: they read the head's answer and train every head."""

    hard = True
    reads_output = True
    trains_every_step = True

    def __init__(self, unit: Unit):
        super().__init__()
        check_choice("unit", unit, "example", "token", why="an exit judges each unit's own answer")
        self.unit = unit

    def begin(self, state: Tensor, units: Units) -> Memory:
        return {}

    @abstractmethod
    def good(self, logits: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        """Whether each unit's answer is good enough."""

    @torch.no_grad()
    def update(self, n: int | Tensor, state: Tensor, output: Tensor | None, memory: Memory) -> Verdict:
        if output is None:
            raise ValueError("an exit judges the answer of every step: give Ponder a head")
        done, memory = self.good(output, memory)
        return None, done, memory

    def loss(self, solution: Solution, target: Tensor, criterion: Criterion) -> Tensor:
        outputs = solution.output[None] if solution.outputs is None else solution.outputs
        return unit_losses(outputs, target, criterion, solution.mask).flatten(1).mean(1).sum()


class ConfidenceExit(Exit):
    """Leaves once the most likely class has at least this probability."""

    def __init__(self, *, threshold: float = 0.9, unit: Unit = "example"):
        super().__init__(unit)
        if not 0 < threshold <= 1:
            raise ValueError(f"threshold={threshold}: a probability lies above 0 and not above 1")
        self.threshold = threshold

    def good(self, logits: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        return log_probabilities(logits).amax(-1).exp() >= self.threshold, memory

    def knob(self, limit: int) -> Knob:
        return Knob(self, "threshold", 1.0, 0.01, crowded=True)


class EntropyExit(Exit):
    """Leaves once the answer's entropy is below this number of nats."""

    def __init__(self, *, threshold: float = 0.3, unit: Unit = "example"):
        super().__init__(unit)
        if not threshold >= 0:
            raise ValueError(f"threshold={threshold}: an entropy is not negative")
        self.threshold = threshold

    def good(self, logits: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        return entropy(logits) < self.threshold, memory

    def knob(self, limit: int) -> Knob:
        return Knob(self, "threshold", 0.0, 5.0, crowded=True)


class PatienceExit(Exit):
    """Leaves once this many steps in a row repeated the answer of the step before."""

    def __init__(self, *, patience: int = 2, unit: Unit = "example"):
        super().__init__(unit)
        if patience < 1:
            raise ValueError(f"patience={patience}: at least one repetition is needed")
        self.patience = patience

    def begin(self, state: Tensor, units: Units) -> Memory:
        none = torch.full(units.shape, -1, device=state.device)
        return {"label": none, "count": torch.zeros_like(none)}

    def good(self, logits: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        label = log_probabilities(logits).argmax(-1)
        count = torch.where(label == memory["label"], memory["count"] + 1, 0)
        return count >= self.patience, {"label": label, "count": count}

    def knob(self, limit: int) -> Knob:
        return Knob(self, "patience", limit, 1)
