"""A knob swept over a trained network: what every setting makes of every example, without training again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ponderosa.halting.knob import Knob
from ponderosa.measure.batches import Data, read, right
from ponderosa.measure.cost import evaluating
from ponderosa.measure.evaluate import Evaluation, adapts, mean_of_tokens
from ponderosa.measure.meter import Meter
from ponderosa.measure.player import Player, player
from ponderosa.ponder import Ponder

Score = Callable[[Tensor, Tensor], Tensor]
"""How good each answer is, from 0 to 1 `[batch]`, from the answers and the targets."""


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
    limit, own = Knob(net, "max_steps", net.max_steps, 1), net.halting.knob(net.max_steps)
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
    values = turned.values(settings) if isinstance(settings, int) else list(settings)
    meter, scores, steps, difficulty = Meter(net), [], [], []
    with evaluating(net):
        for batch in read(tqdm(data, desc=f"{len(values)} settings", unit="batch", disable=not progress), net):
            outputs, taken = _play(player(net, batch, progress), turned, values)
            meter.add(batch, taken)
            targets = batch.y.expand(len(outputs), *batch.y.shape)
            scores.append(score(outputs.flatten(0, 1), targets.flatten(0, 1)).unflatten(0, outputs.shape[:2]).cpu())
            steps.append((taken if taken.ndim == 2 else mean_of_tokens(taken)).float().cpu())
            difficulty.append(batch.difficulty.cpu())
        *operations, own = meter.each()
        full = meter.full()
    *good, own_good = torch.cat(scores, 1)
    *depth, own_depth = torch.cat(steps, 1)
    seen = Evaluation(own_good, own_depth, torch.cat(difficulty), net.max_steps, adapts(net))
    return Sweep(turned.name, values, torch.stack(good), torch.stack(depth), operations, full, seen, own, turned.setting)


def _play(play: Player, knob: Knob, values: list[float]) -> tuple[Tensor, Tensor]:
    """The answers and steps of a batch at every setting, and last with the knob untouched."""
    if knob.setting is not None:
        return play(knob, [*values, knob.setting])
    swept, own = play(knob, values), play(None, [None])
    return torch.cat([swept[0], own[0]]), torch.cat([swept[1], own[1]])
