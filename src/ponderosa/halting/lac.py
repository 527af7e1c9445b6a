"""LAC: halting on the change of the L2 norm (Shemiranifar and Dehghani, 2023)."""

from typing import Any, Literal

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from ponderosa.halting.base import Halting, Memory, Unit, Units, Verdict, check_choice
from ponderosa.halting.knob import Knob
from ponderosa.halting.losses import Criterion, answer_loss
from ponderosa.host import host
from ponderosa.solution import Solution
from ponderosa.tree import over_units

Rule = Literal["paper", "reference"]


def lac_steps(norms: Tensor, alpha: float = 1.0, rule: Rule = "paper") -> Tensor:
    """The step at which each unit halts `[...]`, from its norms |h_0|, |h_1|, ..., |h_T| `[T + 1, ...]`.

    "paper": at the first t with delta_t < alpha * (max - min of delta_1..delta_{t-1}), where
    delta_t = |h_t| - |h_{t-1}|; never before step 2. "reference", as the released code: |delta_{t-1}| is compared with
    alpha * (max - min of 0, delta_1..delta_{t-2}), so never before step 3. T where it never halts.

    >>> lac_steps(torch.tensor([0.0, 1.0, 3.0, 3.5, 3.6]))
    tensor(3)
    """
    check_choice("rule", rule, "paper", "reference")
    last, *rest = norms
    memory = {"norm": last, **_history(last, rule)}
    steps = torch.full(last.shape, len(rest), device=norms.device)
    alive = torch.ones(last.shape, dtype=torch.bool, device=norms.device)
    for t, norm in enumerate(rest, start=1):
        done, memory = _decide(norm, memory, alpha, rule)
        steps = torch.where(alive & done, t, steps)
        alive = alive & ~done
    return steps


def _history(norm: Tensor, rule: Rule) -> Memory:
    """The changes seen before the first step: none, or in the released code a history full of zeros."""
    if rule == "reference":
        zero = torch.zeros_like(norm)
        return {"change": zero, "high": zero, "low": zero}
    return {"high": torch.full_like(norm, -torch.inf), "low": torch.full_like(norm, torch.inf)}


def _decide(norm: Any, memory: Memory, alpha: float, rule: Rule) -> tuple[Any, Memory]:
    """Whether to halt now that the norm is `norm`, and the history with the change that was compared: tensors or arrays."""
    of: Any = torch if isinstance(norm, Tensor) else np
    change = norm - memory["norm"]
    compared = memory["change"] if rule == "reference" else change  # the released code lags one layer
    threshold = alpha * (memory["high"] - memory["low"])  # -inf while there is no history
    done = (abs(compared) if rule == "reference" else compared) < threshold
    memory = {
        **memory, "norm": norm,
        "high": of.maximum(memory["high"], compared), "low": of.minimum(memory["low"], compared),
    }  # fmt: skip
    return done, {**memory, "change": change} if rule == "reference" else memory


class LAC(Halting):
    """Halts when the state's L2 norm grows less than its earlier changes vary. Nothing is learned.

    Args:
        alpha: scales the threshold, in (0, 1]; lower takes more steps.
        unit: "batch" (one norm over everything), "example" (all of an example's activations) or "token" (the last axis).
        rule: "paper", or "reference" for what the released code does (see `lac_steps`).
        min_steps: no unit halts before.
        across_ranks: in data-parallel runs, whether unit="batch" sees the global batch or each process its own.
    """

    hard = True
    on_host = True

    def __init__(
        self, *, alpha: float = 1.0, unit: Unit = "example", rule: Rule = "paper", min_steps: int = 1, across_ranks: bool = True
    ):
        super().__init__()
        if not 0 < alpha <= 1:
            raise ValueError(f"alpha={alpha}: it must lie in (0, 1]; the paper uses 1.0 and 0.8")
        check_choice("unit", unit, "batch", "example", "token")
        check_choice("rule", rule, "paper", "reference")
        self.alpha, self.unit, self.rule, self.min_steps, self.across_ranks = alpha, unit, rule, min_steps, across_ranks

    def begin(self, state: Tensor, units: Units) -> Memory:
        mask = {} if units.mask is None else {"mask": units.mask}
        norm = self.norm(state, mask)
        return {"norm": norm, **_history(norm, self.rule), **mask}

    def norm(self, state: Tensor, memory: Memory) -> Tensor:
        """|h| of each unit, without a gradient; at batch level the same number for every example."""
        state = state.detach()
        if self.unit == "token":
            return _l2(state, -1)
        mask = memory.get("mask")
        if mask is not None and state.ndim > 2 and state.shape[:2] == mask.shape:
            state = _l2(state, -1)
            state = torch.where(over_units(torch.as_tensor(mask, device=state.device), state), state, 0.0)
        norm = _l2(state, *range(1, state.ndim)) if state.ndim > 1 else _l2(state[:, None], 1)
        if self.unit == "example":
            return norm
        total = norm.square().sum()
        if self.across_ranks and dist.is_available() and dist.is_initialized():
            dist.all_reduce(total)
        return total.sqrt().expand(len(norm))

    def update(self, n: int | Tensor, state: Tensor, output: Tensor | None, memory: Memory) -> Verdict:
        norm = self.norm(state, memory)
        if isinstance(memory["norm"], Tensor):
            done, memory = _decide(norm, memory, self.alpha, self.rule)
        else:
            with np.errstate(invalid="ignore"):  # of infinite norms
                done, memory = _decide(host(norm), memory, host(self.alpha), self.rule)
        return None, done if self.min_steps == 1 else done & (n >= self.min_steps), memory

    def knob(self, limit: int) -> Knob:
        return Knob(self, "alpha", 0.05, 1.0)

    def loss(self, solution: Solution, target: Tensor, criterion: Criterion) -> Tensor:
        return answer_loss(solution, target, criterion)


def _l2(values: Tensor, *axes: int) -> Tensor:
    """The norm over these axes: of lower precision in 32 bits, since bfloat16's 8 do not show small changes."""
    return torch.linalg.vector_norm(values, dim=axes, dtype=torch.float32 if values.element_size() < 4 else None)
