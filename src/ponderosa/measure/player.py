"""One batch at any settings of a knob: replayed from one run of all steps where examples halt, run again where they do not."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from ponderosa.engine.replay import replay, trace
from ponderosa.halting.knob import Knob
from ponderosa.ponder import Ponder
from ponderosa.tasks.base import Batch

Player = Callable[[Knob | None, Sequence[Any]], tuple[Tensor, Tensor]]
"""From a knob and its settings to the answers `[settings, batch, ...]` and steps `[settings, batch]` or
`[settings, batch, token]`; without a knob the network as it is, one setting."""


def player(net: Ponder, batch: Batch, progress: bool = False) -> Player:
    """Plays a batch; a network whose examples halt on their own takes each step only once, whatever is asked then.

    Others are run again for every setting, with a progress bar if asked for.
    """
    return _replayed(net, batch) if net.halting.unit == "example" else _again(net, batch, progress)


def _replayed(net: Ponder, batch: Batch) -> Player:
    encoded, state, units = net.begin(batch.x, mask=batch.mask, key=batch.key)
    seen = trace(net.step, net.head, encoded, state, units, net.max_steps)

    def play(knob: Knob | None, values: Sequence[Any]) -> tuple[Tensor, Tensor]:
        if knob is None:
            return replay(seen, net.step, net.halting, net.head)
        settings = torch.tensor(values, device=seen.start.device)[:, None]
        if knob.owner is net:
            return replay(seen, net.step, net.halting, net.head, limits=settings)
        with knob.turned(settings.to(seen.start.dtype) if settings.is_floating_point() else settings):
            outputs, steps = replay(seen, net.step, net.halting, net.head)
        if len(steps) != len(values):
            raise ValueError(
                f"{type(net.halting).__name__} says nothing of each of {len(values)} settings of {knob.name}: its `update` "
                "must broadcast over the knob, [settings, 1] against [batch] (see Halting.knob)"
            )
        return outputs, steps

    return play


def _again(net: Ponder, batch: Batch, progress: bool) -> Player:
    from tqdm import tqdm

    def play(knob: Knob | None, values: Sequence[Any]) -> tuple[Tensor, Tensor]:
        outputs, steps = [], []
        for value in tqdm(values, unit="setting", leave=False, disable=not progress or knob is None):
            with nullcontext() if knob is None else knob.turned(value):
                solution = net(batch.x, mask=batch.mask, key=batch.key)
            outputs.append(solution.output)
            steps.append(solution.steps)
        return torch.stack(outputs), torch.stack(steps)

    return play
