"""Which of the examples under way take their next step: batches stay full whatever the spread of depths."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

import numpy as np

from ponderosa.engine.live import Live
from ponderosa.engine.rows import Parts
from ponderosa.engine.thrift import Thrift
from ponderosa.host import Array

Place = tuple[Hashable, int]
"""What can be in one batch: examples of one kind (of one padded length), and at one layer of a stack (0 where depths mix)."""


@dataclass
class Waiting:
    """Examples that can take their next step together."""

    live: Live
    since: int
    """The round in which the oldest of them began to wait."""
    halted: int = 0
    leaves: bool = False
    """Whether it pays to leave the halted ones before the next step, and to fill their slots."""
    thrift: Thrift | None = None


class Schedule:
    """Examples of a stream under way, in queues; each round the fullest one takes a step.

    Repeated steps mix depths in one batch, whose slots are filled again as examples leave. A stack has a queue for each
    layer, and runs it once it is full, the deepest first. No queue waits for more than `patience` rounds.

    Args:
        slots: the examples in a batch.
        mixes: whether one batch may hold different depths.
    """

    def __init__(self, slots: int, mixes: bool, patience: int = 64):
        self.slots, self.mixes, self.patience = slots, mixes, patience
        self.queues: dict[Place, Waiting] = {}
        self.round = 0

    def __len__(self) -> int:
        return sum(len(w.live) - w.halted for w in self.queues.values())

    def room(self, kind: Hashable) -> int:
        """How many new examples of a kind the next round can take in."""
        waiting = self.queues.get((kind, 0 if self.mixes else 1))
        if waiting is None:
            return self.slots
        halted = 0 if self.mixes and not waiting.leaves else waiting.halted
        return max(self.slots - len(waiting.live) + halted, 0)

    def admit(self, kind: Hashable, live: Live) -> None:
        """Take in examples before their first step."""
        self._put((kind, 0 if self.mixes else 1), live)

    def _put(self, place: Place, live: Live) -> None:
        waiting = self.queues.get(place)
        if waiting is None:
            self.queues[place] = Waiting(live, self.round)
            return
        if waiting.halted >= len(live):
            waiting.live.fill(live)
            waiting.halted -= len(live)
            waiting.leaves = waiting.leaves and waiting.halted > 0
            return
        if waiting.halted:
            self._leave(waiting)
        waiting.live.add(live)

    @staticmethod
    def _leave(waiting: Waiting) -> None:
        """Go on without the halted examples."""
        waiting.live.drop()
        waiting.halted, waiting.leaves = 0, False

    def _pays(self, waiting: Waiting) -> bool:
        """Whether leaving the halted examples is worth the gathering."""
        live = waiting.live
        if waiting.thrift is None:
            waiting.thrift = Thrift(live.step, live.step.read(live.carried["state"]), gathers=3, slots=self.slots)
        return waiting.thrift.pays(waiting.halted, len(live) - waiting.halted)

    def run(self, failed: Callable[[Array, Exception], None]) -> Parts | None:
        """One step of one batch, or as many as are known to be left until somebody ends: what the examples that ended leave
        with. Examples whose step raises an error leave, too."""
        self.round += 1
        place = self._next()
        waiting = self.queues.pop(place)
        if waiting.leaves:  # and nobody came to fill their slots
            self._leave(waiting)
        waiting = self._batch(place, waiting)
        live = waiting.live
        full = self.mixes and len(live) - waiting.halted >= self.slots  # nobody could come in before somebody ends
        try:
            ended = live.take_step(None if self.mixes else place[1], live.sure_steps if full else 1)
        except Exception as error:
            self._apart(place, live, failed, error)
            return None
        parts = None if ended is None else live.leave(ended)
        waiting.halted += 0 if ended is None else len(ended)
        if waiting.halted < len(live):
            self._go_on(place, waiting)
        return parts

    def _batch(self, place: Place, waiting: Waiting) -> Waiting:
        """As many as there are slots, the oldest first; where a queue of a stack has overflown, the others wait on."""
        if len(waiting.live) <= self.slots:
            return waiting
        first, others = waiting.live.part(slice(self.slots)), waiting.live.part(slice(self.slots, None))
        self.queues[place] = Waiting(others, waiting.since)
        return Waiting(first, waiting.since)

    def _go_on(self, place: Place, waiting: Waiting) -> None:
        """To the next step: of the same batch where depths mix, in the next layer's queue of a stack."""
        waiting.since = self.round
        if self.mixes:
            self.queues[place], waiting.leaves = waiting, self._pays(waiting)
            return
        if waiting.halted:
            waiting.live.drop()
        self._put((place[0], place[1] + 1), waiting.live)

    def _next(self) -> Place:
        """The queue that waited too long, the oldest first, or else the deepest full one, or else the fullest."""

        def merit(place: Place) -> tuple[bool, int, int]:
            waiting = self.queues[place]
            late = self.round - waiting.since > self.patience
            return late, -waiting.since if late else min(len(waiting.live) - waiting.halted, self.slots), place[1]

        return max(self.queues, key=merit)

    def _apart(self, place: Place, live: Live, failed: Callable[[Array, Exception], None], error: Exception) -> None:
        """A step that failed for a batch is tried for each of its examples alone, so that only the culprit fails."""
        for one in live.going:
            alone = live.part(np.array([one]))
            if len(live) == 1:
                failed(alone.carried["rows"], error)
            else:
                self.queues[((place[0], "alone", int(alone.carried["rows"][0])), place[1])] = Waiting(alone, self.round)
