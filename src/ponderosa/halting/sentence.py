"""A sentence's exit over its tokens: they halt on their own, and all that are left stop once the sentence's answer is good."""

from dataclasses import replace

import torch
from torch import Tensor

from ponderosa.halting.base import Halting, Memory, Units, Verdict
from ponderosa.halting.exits import Exit
from ponderosa.halting.knob import Knob
from ponderosa.halting.losses import Criterion, unit_losses
from ponderosa.solution import Solution


class SentenceExit(Halting):
    """Tokens halt as one mechanism says, and the whole sentence leaves when the exit is content with its answer.

    Training runs without the exit: tokens halt, and the heads of all layers learn to answer. So the exit's threshold can be
    chosen afterwards (`ponderosa.measure.threshold`).

    >>> import torch, ponderosa as po
    >>> net = po.Ponder(
    ...     po.TransformerStep(8, 2, layers=4), po.SentenceExit(po.PlannedDepth(3, unit="token"), po.ConfidenceExit()),
    ...     head=po.ReadOut(8, 2, place="mean"),
    ... ).eval()
    >>> net(torch.randn(2, 5, 8)).steps.shape
    torch.Size([2, 5])

    Args:
        tokens: a mechanism that halts tokens and answers with one step, as `PlannedDepth`.
        exit: of the sentence, with unit="example".
    """

    unit = "token"
    hard = True
    reads_output = True
    trains_every_step = True
    weighs_answers = False
    freezes = True

    def __init__(self, tokens: Halting, exit: Exit):
        super().__init__()
        if tokens.unit != "token" or not tokens.hard or tokens.reads_output or tokens.term_names:
            raise ValueError(
                f"tokens={type(tokens).__name__}(unit={tokens.unit!r}): a mechanism is needed that halts tokens, answers with "
                'one step and learns nothing, as PlannedDepth(unit="token")'
            )
        if not isinstance(exit, Exit) or exit.unit != "example":
            raise ValueError(f'exit={type(exit).__name__}: an exit with unit="example" is needed, as ConfidenceExit()')
        self.tokens, self.exit = tokens, exit

    def begin(self, state: Tensor, units: Units) -> Memory:
        sentences = replace(units, shape=units.shape[:1], depth=None)
        return {"tokens": self.tokens.begin(state, units), "exit": self.exit.begin(state, sentences)}

    def latest(self, memory: Memory) -> Tensor | None:
        if type(self.exit).update is not Exit.update:  # it may judge by more than the answers
            return None
        return self.tokens.depths(memory["tokens"])

    def update(self, n: int | Tensor, state: Tensor, output: Tensor | None, memory: Memory) -> Verdict:
        _, done, tokens = self.tokens.update(n, state, None, memory["tokens"])
        if self.training:
            return None, done, {**memory, "tokens": tokens}
        _, content, judged = self.exit.update(n, state, output, memory["exit"])
        if content.shape != done.shape[:1]:
            raise ValueError(
                f"the head answers {list(content.shape)}, but there are {len(done)} sentences: it must give one answer for each"
            )
        return None, done | content[:, None], {"tokens": tokens, "exit": judged}

    def knob(self, limit: int) -> Knob | None:
        return self.exit.knob(limit)

    def loss(self, solution: Solution, target: Tensor, criterion: Criterion) -> Tensor:
        """The losses of all heads, that of layer n weighed by n, as in PABEE (Zhou et al., 2020): with equal weights the first
        layers learn the training texts by heart, and spoil what the deep ones see."""
        outputs = solution.output[None] if solution.outputs is None else solution.outputs
        losses = unit_losses(outputs, target, criterion, solution.mask).flatten(1).mean(1)
        weights = torch.arange(1, len(losses) + 1, device=losses.device)
        return (losses * weights / weights.sum()).sum()
