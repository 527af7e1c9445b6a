"""PonderNet: a learned distribution over the halting step (Banino et al., 2021)."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ponderosa.gate import Gate
from ponderosa.halting.base import Halting, Memory, Unit, Units, Verdict, check_choice
from ponderosa.halting.gate import as_linear, gate, read_units
from ponderosa.halting.knob import Knob
from ponderosa.halting.losses import Criterion, answer_loss, unit_losses
from ponderosa.halting.prior import geometric_prior, kl_to_prior
from ponderosa.keys import uniform
from ponderosa.solution import Solution


def ponder_weights(lambdas: Tensor) -> Tensor:
    """The probability of halting at each step `[N, ...]` from the conditional ones `[N, ...]`.

    p_n = lambda_n * prod_{j<n} (1 - lambda_j), with lambda_N = 1 whatever is given, so that p sums to 1.

    >>> ponder_weights(torch.tensor([0.5, 0.5, 0.1]))
    tensor([0.5000, 0.2500, 0.2500])
    """
    survival = torch.cat([torch.ones_like(lambdas[:1]), (1 - lambdas[:-1]).cumprod(0)])
    return survival * torch.cat([lambdas[:-1], torch.ones_like(lambdas[:1])])


class PonderNet(Halting):
    """Learns at which step to halt: the loss is an expectation over it, and a geometric prior pulls at it.

    In training every step is taken. In evaluation a unit halts at one step: the first whose cumulative
    probability exceeds a uniform draw made from `seed` and the unit's key (which equals drawing
    Bernoulli(lambda_n) step by step), or reaches `threshold`.

    Args:
        beta: the weight of the prior's pull in the loss.
        lambda_p: of the geometric prior, whose mean is about 1 / lambda_p steps.
        evaluation: "sample" as in the paper, or "threshold" for a deterministic answer.
        threshold: the cumulative probability at which "threshold" halts.
        kl: "paper" for KL(p || prior), "reverse" for KL(prior || p).
        bias: of the halting unit at the start; 0 halts with probability 1/2 at each step.
        unit: what halts on its own, "example" or "token" (for targets per token).
        seed: of the draws.
        size: of the state that is read; taken from the step where it says.
    """

    trains_every_step = True
    term_names = ("kl",)

    def __init__(
        self, *, beta: float = 0.01, lambda_p: float = 0.2, evaluation: Literal["sample", "threshold"] = "sample",
        threshold: float = 0.5, kl: Literal["paper", "reverse"] = "paper", bias: float = 0.0, unit: Unit = "example",
        seed: int = 0, size: int | None = None,
    ):  # fmt: skip
        super().__init__()
        geometric_prior(lambda_p, 1)  # says what is wrong with lambda_p now rather than at the first loss
        if not beta >= 0:
            raise ValueError(f"beta={beta}: the prior's weight cannot be negative")
        if not 0 < threshold <= 1:
            raise ValueError(f"threshold={threshold}: a cumulative probability lies above 0 and not above 1")
        check_choice("unit", unit, "example", "token", why="PonderNet weighs each unit's own loss")
        check_choice("evaluation", evaluation, "sample", "threshold")
        check_choice("kl", kl, "paper", "reverse")
        self.beta, self.lambda_p, self.evaluation, self.threshold = beta, lambda_p, evaluation, threshold
        self.kl, self.bias, self.unit, self.seed = kl, bias, unit, seed
        self.gate: nn.Linear | None = gate(size, bias)

    @property
    def hard(self) -> bool:
        return not self.training

    def build(self, size: int | None) -> None:
        self.gate = self.gate or gate(size, self.bias)

    def begin(self, state: Tensor, units: Units) -> Memory:
        memory = {"log_survival": state.new_zeros(units.shape), **({} if units.mask is None else {"mask": units.mask})}
        if not self.training and self.evaluation == "sample":
            memory["draw"] = uniform(self.seed, units.key.to(state.device)).to(state.dtype)
        return memory

    def logits(self, state: Tensor, memory: Memory, lead: int = 1) -> Tensor:
        assert self.gate is not None, "say how large the state is: PonderNet(size=...)"
        return self.gate(read_units(state, self.unit, memory.get("mask"), lead)).squeeze(-1)

    def linear_gate(self) -> Gate | None:
        return as_linear(self.gate) if self.training and type(self) is PonderNet else None  # a subclass may read otherwise

    def update(self, n: int | Tensor, state: Tensor, output: Tensor | None, memory: Memory) -> Verdict:
        if self.training:
            shares, dones, memory = self.scan(1, state[None], None, memory)
            assert shares is not None, "training tells the share of every step"
            return shares[0], dones[0], memory
        survival = memory["log_survival"] + F.logsigmoid(-self.logits(state, memory))
        cumulative = -torch.expm1(survival)
        done = cumulative > memory["draw"] if self.evaluation == "sample" else cumulative >= self.threshold
        return None, done, {**memory, "log_survival": survival}

    def scan(self, first: int, states: Tensor, outputs: Tensor | None, memory: Memory) -> Verdict:
        if not self.training:
            return super().scan(first, states, outputs, memory)
        return self.scan_logits(first, self.logits(states, memory, lead=2), memory)

    def scan_logits(self, first: int, logits: Tensor, memory: Memory) -> Verdict:
        start = memory["log_survival"]
        log_halt = F.logsigmoid(logits)
        after = start + (log_halt - logits).cumsum(0)  # log(1 - lambda) = log lambda - logit
        before = torch.cat([start[None], after[:-1]])
        # what is left is 1 minus the shares so far, but exact where hardly anything is
        memory = {**memory, "log_survival": after[-1], "left": before[-1].exp()}
        return (before + log_halt).exp(), torch.zeros_like(logits, dtype=torch.bool), memory

    def knob(self, limit: int) -> Knob:
        return Knob(self, "threshold", 1.0, 0.05, also={"evaluation": "threshold"})

    def loss(self, solution: Solution, target: Tensor, criterion: Criterion) -> Tensor:
        if solution.outputs is None:
            return answer_loss(solution, target, criterion)
        losses = unit_losses(solution.outputs, target, criterion, solution.mask, tokens=solution.weights.ndim > 2)
        if losses.ndim > solution.weights.ndim:  # an example's loss is the mean of its tokens'
            losses = losses.mean(-1)
        if losses.shape != solution.weights.shape:
            units, given = list(solution.weights.shape[1:]), list(losses.shape[1:])
            raise ValueError(f"PonderNet weighs the loss of every unit: its units are {units}, but the target gives losses "
                             f'for {given}. Use unit="example" for a label per example.')  # fmt: skip
        return (solution.weights * losses).sum() / losses[0].numel() + self.beta * self.kl_loss(solution)

    def terms(self, solution: Solution) -> dict[str, Tensor]:
        return {"kl": self.kl_loss(solution)}

    def kl_loss(self, solution: Solution) -> Tensor:
        """The divergence from the prior, averaged over the units that are not padding."""
        kl = kl_to_prior(solution.weights, geometric_prior(self.lambda_p, solution.max_steps), self.kl == "reverse")
        return kl.mean() if solution.mask is None or kl.shape != solution.mask.shape else kl[solution.mask].mean()
