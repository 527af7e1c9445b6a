"""One batch at any settings of a knob: replayed from one run of all steps where examples halt, run again where they do not."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, Protocol

import torch
from torch import Tensor

from ponderosa.engine.replay import replay, trace
from ponderosa.halting.knob import Knob
from ponderosa.measure.cost import unhalted
from ponderosa.ponder import Ponder
from ponderosa.tasks.base import Batch


class Player(Protocol):
    """Plays one batch."""

    def __call__(self, knob: Knob | None, values: Sequence[Any]) -> tuple[Tensor, Tensor]:
        """The answers `[settings, batch, ...]` and steps `[settings, batch]` or `[settings, batch, token]` at each setting of
        a knob; without a knob those of the network as it is, one setting."""

    def full(self) -> Tensor:
        """The answers `[batch, ...]` of the last step, where nothing has halted before."""


def player(net: Ponder, batch: Batch, progress: bool = False) -> Player:
    """Plays a batch; a network whose examples halt on their own takes each step only once, whatever is asked then.

    Others are run again for every setting, with a progress bar if asked for.
    """
    return _Replayed(net, batch) if net.halting.unit == "example" else _Again(net, batch, progress)


class _Replayed:
    def __init__(self, net: Ponder, batch: Batch):
        encoded, state, units = net.begin(batch.x, mask=batch.mask, key=batch.key)
        self.net, self.seen = net, trace(net.step, net.head, encoded, state, units, net.full_depth)

    def __call__(self, knob: Knob | None, values: Sequence[Any]) -> tuple[Tensor, Tensor]:
        net, start = self.net, self.seen.start
        own = torch.tensor([[net.max_steps]], device=start.device)
        if knob is None:
            return self._replay(own)
        settings = torch.tensor(values, device=start.device)[:, None]
        if knob.owner is net:
            return self._replay(settings)
        with knob.turned(settings.to(start.dtype) if settings.is_floating_point() else settings):
            outputs, steps = self._replay(own)
        if len(steps) != len(values):
            raise ValueError(
                f"{type(net.halting).__name__} says nothing of each of {len(values)} settings of {knob.name}: its `update` "
                "must broadcast over the knob, [settings, 1] against [batch] (see Halting.knob)"
            )
        return outputs, steps

    def full(self) -> Tensor:
        return self.seen.answers[-1]

    def _replay(self, limits: Tensor) -> tuple[Tensor, Tensor]:
        return replay(self.seen, self.net.step, self.net.halting, self.net.head, limits)


class _Again:
    def __init__(self, net: Ponder, batch: Batch, progress: bool):
        self.net, self.batch, self.progress = net, batch, progress

    def __call__(self, knob: Knob | None, values: Sequence[Any]) -> tuple[Tensor, Tensor]:
        from tqdm import tqdm

        batch, outputs, steps = self.batch, [], []
        for value in tqdm(values, unit="setting", leave=False, disable=not self.progress or knob is None):
            with nullcontext() if knob is None else knob.turned(value):
                solution = self.net(batch.x, mask=batch.mask, key=batch.key)
            outputs.append(solution.output)
            steps.append(solution.steps)
        return torch.stack(outputs), torch.stack(steps)

    def full(self) -> Tensor:
        whole = unhalted(self.net, self.net.full_depth).eval()
        return whole(self.batch.x, mask=self.batch.mask, key=self.batch.key).output
