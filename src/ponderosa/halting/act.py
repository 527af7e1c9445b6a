"""ACT: adaptive computation time (Graves, 2016)."""

import torch
from torch import Tensor, nn

from ponderosa.gate import Gate
from ponderosa.halting.base import Halting, Memory, Unit, Units, Verdict, check_choice
from ponderosa.halting.gate import as_linear, gate, read_units
from ponderosa.halting.knob import Knob
from ponderosa.halting.losses import Criterion, answer_loss
from ponderosa.solution import Solution


def act_weights(halt: Tensor, eps: float = 0.01) -> tuple[Tensor, Tensor, Tensor]:
    """Weights `[N, ...]`, steps `[...]` and remainder `[...]` from halting values `[N, ...]` (eq. 6-8).

    A unit halts at the first step at which its halting values sum to at least 1 - eps, or at the last; that
    step weighs the remainder, 1 minus the sum of the earlier values. Steps are whole numbers
    without a gradient; the gradient of the cost, steps + remainder, goes through the remainder.

    >>> w, steps, r = act_weights(torch.tensor([0.3, 0.5, 0.4, 0.9]))
    >>> w, steps, r
    (tensor([0.3000, 0.5000, 0.2000, 0.0000]), tensor(3), tensor(0.2000))
    """
    running = halt.cumsum(0)
    over = running >= 1 - eps
    over[-1] = True
    steps = (~over).sum(0) + 1
    n = torch.arange(1, len(halt) + 1, device=halt.device).view(-1, *(1,) * (halt.ndim - 1))
    weights = torch.where(n < steps, halt, torch.where(n == steps, 1 - (running - halt), 0.0))
    return weights, steps, weights.gather(0, steps[None] - 1)[0]


class ACT(Halting):
    """Halts when the running sum of a learned halting value reaches 1 - eps; answers with the mean state.

    Args:
        tau: the price of a step: the loss gains tau * (steps + remainder), averaged over units.
        eps: lets a unit halt after its first step.
        bias: of the halting unit at the start: lower starts deeper. At -2 a unit takes about eight steps.
        unit: what halts on its own, "example" or "token".
        size: of the state that is read; taken from the step where it says.
    """

    term_names = ("ponder_cost",)

    def __init__(
        self, *, tau: float = 0.001, eps: float = 0.01, bias: float = -2.0, unit: Unit = "example", size: int | None = None
    ):
        super().__init__()
        if not 0 < eps < 1:
            raise ValueError(f"eps={eps}: it must lie between 0 and 1; Graves uses 0.01")
        if not tau >= 0:
            raise ValueError(f"tau={tau}: the price of a step cannot be negative")
        check_choice("unit", unit, "example", "token", why="ACT weighs each unit's own steps")
        self.tau, self.eps, self.bias, self.unit = tau, eps, bias, unit
        self.gate: nn.Linear | None = gate(size, bias)

    def build(self, size: int | None) -> None:
        self.gate = self.gate or gate(size, self.bias)

    def begin(self, state: Tensor, units: Units) -> Memory:
        return {"sum": state.new_zeros(units.shape), **({} if units.mask is None else {"mask": units.mask})}

    def logits(self, state: Tensor, memory: Memory, lead: int = 1) -> Tensor:
        assert self.gate is not None, "say how large the state is: ACT(size=...)"
        return self.gate(read_units(state, self.unit, memory.get("mask"), lead)).squeeze(-1)

    def linear_gate(self) -> Gate | None:
        return as_linear(self.gate, 1 - self.eps) if type(self) is ACT else None  # a subclass may read otherwise

    def update(self, n: int | Tensor, state: Tensor, output: Tensor | None, memory: Memory) -> Verdict:
        share = self.logits(state, memory).sigmoid()
        total = memory["sum"] + share
        return share, total >= 1 - self.eps, {**memory, "sum": total}

    def scan(self, first: int, states: Tensor, outputs: Tensor | None, memory: Memory) -> Verdict:
        return self.scan_logits(first, self.logits(states, memory, lead=2), memory)

    def scan_logits(self, first: int, logits: Tensor, memory: Memory) -> Verdict:
        shares = logits.sigmoid()
        totals = memory["sum"] + shares.detach().cumsum(0)  # only compared
        return shares, totals >= 1 - self.eps, {**memory, "sum": totals[-1]}

    def knob(self, limit: int) -> Knob:
        return Knob(self, "eps", 0.01, 0.96)

    def loss(self, solution: Solution, target: Tensor, criterion: Criterion) -> Tensor:
        return answer_loss(solution, target, criterion) + self.tau * self.ponder_cost(solution)

    def terms(self, solution: Solution) -> dict[str, Tensor]:
        return {"ponder_cost": self.ponder_cost(solution)}

    def ponder_cost(self, solution: Solution) -> Tensor:
        """The mean of steps + remainder over the units that are not padding."""
        steps, last = solution.steps, solution.steps - 1
        units: int | Tensor = steps.numel()
        if solution.mask is not None:  # padding takes no step, and weighs nothing
            units, last = (steps > 0).sum(), last.clamp_min(0)
        return (steps.sum() + solution.weights.gather(0, last[None]).sum()) / units
