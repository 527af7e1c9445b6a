"""The head: one for all steps, one per step (a `ModuleList`), or none, and then the state is the answer.

A head that pools over tokens says `reads_mask = True`: it is called with the mask `[batch, token]`, True for what is not
padding, as its second argument (None where all tokens are real). If its class has a method `packed`, too, an engine whose
tokens are packed calls that instead, with all tokens' states `[rows, size]`, one example after the other, in any order within
it, and the number of each example's. It must not keep the rows: they may change. Whoever overrides `forward` has to say
`packed` again.
"""

from typing import Any

import torch
from torch import Tensor, nn

from ponderosa.hooks import hooked


def answer(head: nn.Module | None, state: Tensor, n: int | Tensor, mask: Tensor | None = None) -> Tensor:
    """The answer `[batch, ...]` from the state after step `n`; where examples are at different steps, by the head of all."""
    if head is None:
        return state
    chosen = head[int(n) - 1] if isinstance(head, nn.ModuleList) else head
    return chosen(state, mask) if getattr(chosen, "reads_mask", False) else chosen(state)


def pools(head: nn.Module | None) -> bool:
    """Whether every head can pool packed tokens."""
    return all(map(_pools, head if isinstance(head, nn.ModuleList) else [head]))


def _pools(head: Any) -> bool:
    """Whether a head's own class says how, and nobody wants to see its call, or has changed it."""
    if not getattr(head, "reads_mask", False) or "forward" in vars(head) or hooked(head):
        return False
    own = next((cls for cls in type(head).__mro__ if {"forward", "packed"} & vars(cls).keys()), object)
    return "packed" in vars(own)


def answers(head: nn.Module | None, states: Tensor, first: int, mask: Tensor | None = None) -> Tensor:
    """The answers `[k, batch, ...]` of the steps `first, first + 1, ...`: in one call where they share the head."""
    if head is None:
        return states
    if isinstance(head, nn.ModuleList):
        return torch.stack([answer(head, state, first + k, mask) for k, state in enumerate(states)])
    repeated = None if mask is None else mask.expand(len(states), *mask.shape).flatten(0, 1)
    return answer(head, states.flatten(0, 1), first, repeated).unflatten(0, states.shape[:2])


def last_answer(head: nn.Module | None, state: Tensor, steps: Tensor, mask: Tensor | None = None) -> Tensor:
    """The answer `[batch, ...]` from the weighed state, by the head of the step at which each example ended."""
    if not isinstance(head, nn.ModuleList):
        return answer(head, state, 1, mask)
    if steps.ndim > 1:
        steps = steps.flatten(1).amax(1)  # an example ends with its last token
    depths = steps.unique().tolist()
    if len(depths) < 2:
        return answer(head, state, max([1, *depths]), mask)
    rows = [(steps == n).nonzero()[:, 0] for n in depths]
    parts = [answer(head, state[r], max(n, 1), None if mask is None else mask[r]) for n, r in zip(depths, rows, strict=True)]
    return torch.cat(parts)[torch.cat(rows).argsort()]
