"""What an engine is measured against: the same weights at full depth, masked, until all have halted; and the ideal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ponderosa.engine.ledger import frozen
from ponderosa.ponder import Ponder
from ponderosa.steps import Step, attention_native
from ponderosa.steps.block import Planned
from ponderosa.steps.tokens import Tokens
from ponderosa.steps.transformer import TokenStep

Run = Callable[[], object]


def full_depth(net: Ponder, x: Tensor, mask: Tensor | None, depth: Tensor) -> Tensor:
    """Every step for everyone, padding included."""
    context, state = net.step.prepare(x, mask), net.step.initial_state(x)
    for n in range(1, net.max_steps + 1):
        state = net.step.advance(context, state, n)
    return state


def full_packed(net: Ponder, x: Tensor, mask: Tensor | None, depth: Tensor) -> Tensor:
    """Every step for everyone, padding packed away."""
    assert mask is not None and isinstance(net.step, TokenStep)
    context, state, real = net.step.prepare(x, mask), x, Tokens(mask)
    for n in range(1, net.max_steps + 1):
        state = net.step.advance_packed(context, state, n, real)
    return state


def masked(net: Ponder, x: Tensor, mask: Tensor | None, depth: Tensor, until_all_halted: bool = False) -> Tensor:
    """Every step for everyone, but halted units keep their state: what most implementations do."""
    context, state = net.step.prepare(x, mask), net.step.initial_state(x)
    for n in range(1, net.max_steps + 1):
        alive = depth >= n
        if until_all_halted and not alive.any():
            break
        state = frozen(alive, net.step.advance(context, state, n), state)
    return state


def until_all_halted(net: Ponder, x: Tensor, mask: Tensor | None, depth: Tensor) -> Tensor:
    """Masked, and it stops when the slowest unit of the batch has halted."""
    return masked(net, x, mask, depth, until_all_halted=True)


def ideal(net: Ponder, x: Tensor, mask: Tensor | None, depth: Tensor) -> Run:
    """The same dense layers, step after step, on just the rows still needed: ready-made, so nothing is gathered or decided.

    With gradients where the network trains.
    """
    step, training = net.step, net.training
    token = depth.ndim > 1
    parts: list[Callable[[], Tensor]] = [] if isinstance(step, TokenStep) else [lambda: step.prepare(x)]
    for n in range(1, int(depth.max()) + 1):
        active = depth >= n
        if mask is not None:
            active = active & mask if token else active[:, None] & mask
        make = _token_part if token or mask is not None else _example_part
        if active.any():
            parts.append(make(step, x, n, active, mask, depth >= n - 1, training))

    def run() -> None:
        for part in parts:
            out = part()
            if training:
                out.sum().backward()

    return run


def _example_part(
    step: Step, x: Tensor, n: int, active: Tensor, mask: Tensor | None, before: Tensor, training: bool
) -> Callable[[], Tensor]:
    rows = int(active.sum())
    x = x[:rows].clone()
    state = step.initial_state(x).clone().requires_grad_(training and n > 1)
    context = step.prepare(x)
    context = {"mask": None} if isinstance(step, TokenStep) else context.detach()
    return lambda: step.advance_by(context, state, n, 1)


def _token_part(
    step: Any, x: Tensor, n: int, active: Tensor, mask: Tensor | None, before: Tensor, training: bool
) -> Callable[[], Tensor]:
    """Keys and values of the tokens that need them, everything else of the active ones, attention of equal parts."""
    layer = step.layer(n)
    counts, lengths = active.sum(1), torch.full((len(active),), active.shape[1]) if mask is None else mask.sum(1)
    live = counts > 0
    examples, size = int(live.sum()), x.shape[-1]
    rows = int(counts.sum())
    if step.frozen_kv:
        keys = rows
    elif step.repeats_exactly:
        real = torch.ones_like(active) if mask is None else mask
        keys = int((before.expand_as(active) & real & live[:, None]).sum()) if before.ndim > 1 else rows
    else:
        keys = int(lengths[live].sum())
    shown, heads = int(lengths[live].sum()), layer.heads
    asking_counts, shown_counts = _even(rows, examples), _even(shown, examples)

    def rand(*shape: int) -> Tensor:
        return torch.randn(*shape).to(x.dtype).requires_grad_(training and n > 1)

    h, others, whole = rand(rows, size), rand(keys, size), rand(examples, shown_counts[0], size)
    q, kv = rand(rows, size), rand(shown, 2 * size)
    with torch.set_grad_enabled(training):
        in_c = attention_native.fits(q, kv, heads, shown_counts[0])
    # where C does not attend, one call of the library does for all, on what is padded already
    asked, keys_at, values_at = (
        rand(examples, heads, length, size // heads) for length in (asking_counts[0], shown_counts[0], shown_counts[0])
    )

    def part() -> Tensor:
        asking = showing = layer
        if step.hyper is not None:
            plan = step.hyper.plan(whole, None)
            asking, showing = (Planned(layer, plan.packed(_even(n, examples))) for n in (rows, keys))
        made = showing.keys_values(others)
        if in_c:
            attended = attention_native.attend_packed(q, kv, heads, asking_counts, shown_counts)
        else:
            attended = F.scaled_dot_product_attention(asked, keys_at, values_at).transpose(1, 2).reshape(-1, size)[:rows]
        out = asking.finish(h, asking.queries(h) + attended)
        return out.sum() + made.sum() if training else out

    return part


def _even(rows: int, examples: int) -> list[int]:
    """As many rows for each example as for any other, up to one."""
    return [rows // examples + (i < rows % examples) for i in range(examples)]
