"""A knob swept over a trained network: what every setting makes of every example, without training again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ponderosa.halting.knob import Knob
from ponderosa.measure.batches import Data, read, right, scored
from ponderosa.measure.cost import evaluating
from ponderosa.measure.evaluate import Evaluation, adapts, mean_of_tokens
from ponderosa.measure.meter import Meter
from ponderosa.measure.player import Player, player
from ponderosa.ponder import Ponder

Score = Callable[[Tensor, Tensor], Tensor]
"""How good each answer is, from 0 to 1 `[batch]`, from the answers and the targets."""


@dataclass(frozen=True)
class Reference:
    """What a promise is held against: the network at full depth, where nothing halts.

    Where an answer weighs several steps (ACT), when to halt is part of it: then the deepest setting of the knob.
    """

    name: str
    """In words."""
    score: Tensor
    """How good each answer is `[examples]`."""
    steps: float
    """Per example on average."""
    operations: float
    """Per example on average."""


@dataclass(frozen=True)
class Sweep:
    """The settings of a knob, the deepest first: a row each, and a column for each example."""

    knob: str
    values: list[float]
    score: Tensor
    """How good each answer is `[settings, examples]`."""
    steps: Tensor
    """How many steps each example took, the mean over its tokens where they halt on their own `[settings, examples]`."""
    operations: list[float]
    """Per example, at each setting."""
    full_operations: float
    """Per example, at full depth without halting."""
    reference: Reference
    own: Evaluation
    """The network as it is, its knob untouched."""
    own_operations: float
    setting: Any = None
    """The knob as it is; None where it has no effect."""


def network(model: Any) -> Ponder:
    """The `Ponder` that a model is, or that runs it."""
    net = getattr(model, "net", model)
    if not isinstance(net, Ponder):
        raise TypeError(f"the model is {type(model).__name__}: a po.Ponder, or what po.adapt made, is needed")
    return net


def knob_of(model: Any, name: str | None = None) -> Knob:
    """What is turned: the mechanism's own knob; where it has none, or if `name` says "max_steps", the limit on steps.

    >>> import ponderosa as po
    >>> knob_of(po.Ponder(po.GRUStep(4, 8), po.LAC(), max_steps=5)).name
    'alpha'
    """
    net = network(model)
    limit, own = Knob(net, "max_steps", net.full_depth, 1), net.halting.knob(net.full_depth)
    known = {knob.name: knob for knob in (own, limit) if knob is not None}
    if name is not None and name not in known:
        raise ValueError(f"{type(net.halting).__name__} has no knob {name!r}: choose {' or '.join(known)}")
    return (own or limit) if name is None else known[name]


def sweep(
    model: Any, data: Data, *, settings: int | Sequence[float] = 20, knob: str | None = None, score: Score = right,
    progress: bool = False,
) -> Sweep:  # fmt: skip
    """Every setting of the knob on every example of a data loader.

    Where examples halt on their own, each step is taken once and the settings are replayed; where tokens or the batch do, a
    setting is a run of its own.

    Args:
        model: a `Ponder`, or what `po.adapt` made.
        data: a data loader (see `measure.batches.Data`).
        settings: how many of them, or which ones.
        knob: "max_steps" for the limit on steps, if not the mechanism's own.
        score: how good an answer is; by default 1 for the right class.
        progress: whether to show a progress bar.
    """
    from tqdm import tqdm

    net, turned = network(model), knob_of(model, knob)
    values = _values(turned, settings)
    meter, scores, steps, full_scores, difficulty = Meter(net), [], [], [], []
    with evaluating(net):
        for batch in read(tqdm(data, desc=f"{len(values)} settings", unit="batch", disable=not progress), net):
            play = player(net, batch, progress)
            outputs, taken = _play(play, turned, values)
            meter.add(batch, taken)
            targets = batch.y.expand(len(outputs), *batch.y.shape)
            scores.append(scored(score, outputs.flatten(0, 1), targets.flatten(0, 1)).unflatten(0, outputs.shape[:2]))
            steps.append((taken if taken.ndim == 2 else mean_of_tokens(taken)).float().cpu())
            difficulty.append(batch.difficulty.cpu())
            if net.halting.hard:
                full_scores.append(scored(score, play.full(), batch.y))
        *operations, own = meter.each()
        full = meter.full()
    *good, own_good = torch.cat(scores, 1)
    *depth, own_depth = torch.cat(steps, 1)
    seen = Evaluation(own_good, own_depth, torch.cat(difficulty), net.full_depth, adapts(net))
    if full_scores:
        reference = Reference("full depth", torch.cat(full_scores), net.full_depth, full)
    else:
        deepest = f"the deepest setting, {turned.name} = {values[0]:.6g}"
        reference = Reference(deepest, good[0], float(depth[0].mean()), operations[0])
    return Sweep(
        turned.name, values, torch.stack(good), torch.stack(depth), operations, full, reference, seen, own, turned.setting
    )


def _values(knob: Knob, settings: int | Sequence[float]) -> list[float]:
    """The settings that were asked for, the deepest first."""
    if isinstance(settings, int):
        if settings < 1:
            raise ValueError(f"settings={settings}: at least one is needed")
        return knob.values(settings)
    values = list(settings) if isinstance(settings, Iterable) else []
    if not values or not all(isinstance(value, (int, float)) and math.isfinite(value) for value in values):
        raise ValueError(f"settings={settings}: say how many settings of {knob.name} there are to be, or list which (numbers)")
    if knob.name == "max_steps" and not all(value in range(1, int(knob.deepest) + 1) for value in values):
        raise ValueError(f"settings={settings}: max_steps goes from 1 to {knob.deepest}, the network's full depth")
    return sorted(values, reverse=knob.deepest > knob.shallowest)


def _play(play: Player, knob: Knob, values: list[float]) -> tuple[Tensor, Tensor]:
    """The answers and steps of a batch at every setting, and last with the knob untouched."""
    if knob.setting is not None:
        return play(knob, [*values, knob.setting])
    swept, own = play(knob, values), play(None, [None])
    return torch.cat([swept[0], own[0]]), torch.cat([swept[1], own[1]])
