"""Requests on their way: asked, under way in the schedule's queues, answered."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import torch
from torch import Tensor, nn

from ponderosa.engine.compact import answered
from ponderosa.engine.live import Live
from ponderosa.engine.rows import Parts
from ponderosa.engine.schedule import Schedule
from ponderosa.finite import not_finite
from ponderosa.halting.base import Units
from ponderosa.host import Array
from ponderosa.ponder import Ponder
from ponderosa.stream.request import Answer, Request, batched, kind, length, whole_depth
from ponderosa.tree import Tree

Asked = tuple[int, Request]

AHEAD = 8
"""So many batches at hand: an encoder or an input's projection is the quicker for an example, the more begin together."""


class Traffic:
    """A network's requests from the first step to the answer; whoever drives it calls `ask` and `round`."""

    def __init__(self, net: Ponder, slots: int, tokens: bool):
        self.net, self.slots, self.tokens, self.max_steps = net, slots, tokens, net.max_steps
        self.schedule = Schedule(slots, mixes=net.step.tied and not isinstance(net.head, nn.ModuleList))
        self.waiting: dict[Hashable, list[Asked]] = {}
        self.begun: dict[Hashable, Live] = {}
        self.lengths: dict[int, int] = {}
        self.failed: list[Answer] = []
        self.asked = 0

    def forget(self) -> None:
        """All requests that are on their way."""
        self.schedule.queues.clear()
        for kept in (self.waiting, self.begun, self.lengths, self.failed):
            kept.clear()

    @property
    def busy(self) -> bool:
        return bool(self.waiting or self.begun or self.failed or len(self.schedule))

    @property
    def wanted(self) -> int:
        """How many more requests could start soon."""
        at_hand = sum(map(len, self.waiting.values())) + sum(map(len, self.begun.values()))
        return max(AHEAD * self.slots - at_hand, 0)

    def ask(self, number: int, given: Tree) -> None:
        """Take in a request; its answer comes out of a later `round`."""
        self.asked += 1
        request = given if isinstance(given, Request) else Request(given)
        try:
            if self.tokens:
                self.lengths[number] = length(request)
            self.waiting.setdefault(kind(request, self.tokens), []).append((number, request))
        except Exception as error:
            self.failed.append(Answer(number, error=error))

    @torch.no_grad()
    def round(self) -> list[Answer]:
        """Fill the slots that are free, let the fullest batch take a step, and give the answers that are ready."""
        for of_kind in {**self.waiting, **self.begun}:
            self._admit(of_kind)
        parts = self.schedule.run(self._fail) if len(self.schedule) else None
        answers, self.failed = self.failed, []
        return answers if parts is None else answers + self._answered(parts)

    def _admit(self, of_kind: Hashable) -> None:
        """As many requests of a kind as there is room for: begun together, and let in one by one."""
        self._let_in(of_kind)
        if of_kind in self.waiting and self.schedule.room(of_kind):
            self._begin_waiting(of_kind, self.waiting.pop(of_kind))
            self._let_in(of_kind)

    def _let_in(self, of_kind: Hashable) -> None:
        """As many of those that are begun as there is room for."""
        begun, room = self.begun.get(of_kind), self.schedule.room(of_kind)
        if begun is None or not room:
            return
        if len(begun) > room:
            self.begun[of_kind], begun = begun.part(slice(room, None)), begun.part(slice(room))
        else:
            del self.begun[of_kind]
        self.schedule.admit(of_kind, begun)

    def _begin_waiting(self, of_kind: Hashable, asked: list[Asked]) -> None:
        """Together; where that fails, in halves, so that only the culprit fails."""
        try:
            # a stack's layers have queues of their own, which stay full in any order
            self._keep(of_kind, self._begin(_deepest_first(asked) if self.schedule.mixes else asked))
        except Exception as error:
            if len(asked) == 1:
                self._fail(np.array(asked[0][:1]), error)
                return
            half = len(asked) // 2
            self._begin_waiting(of_kind, asked[:half])
            self._begin_waiting(of_kind, asked[half:])

    def _keep(self, of_kind: Hashable, begun: Live) -> None:
        """Until there is room for them, beside those of their kind that are begun already."""
        if of_kind in self.begun:
            self.begun[of_kind].add(begun)
        else:
            self.begun[of_kind] = begun

    def _begin(self, new: list[Asked]) -> Live:
        net, numbers = self.net, [number for number, _ in new]
        like = next(net.parameters(), torch.empty(0))
        lengths = [self.lengths[number] for number in numbers] if self.tokens else None
        x, state, units = net.begin(**batched([request for _, request in new], lengths, like))
        memory, context = net.halting.begin(net.step.read(state), units), net.step.prepare(x, units.mask)
        return Live(net.step, net.halting, net.head, self.max_steps).begin(np.array(numbers), context, state, units, memory)

    def _fail(self, rows: Array, error: Exception) -> None:
        for number in rows.tolist():
            self.lengths.pop(number, None)
            self.failed.append(Answer(number, error=error))

    def _answered(self, parts: Parts) -> list[Answer]:
        """The answers of examples that have ended: one by one where the head fails, so that only the culprit has none."""
        try:
            return self._answers(parts)
        except Exception as error:
            numbers = parts.rows.tolist()
            if len(numbers) == 1:
                self.lengths.pop(numbers[0], None)
                return [Answer(numbers[0], error=error)]
            return [answer for i in range(len(numbers)) for answer in self._answered(parts.part(slice(i, i + 1)))]

    def _answers(self, parts: Parts) -> list[Answer]:
        """The head's answers for examples that have ended, without their padding."""
        net = self.net
        units = Units(torch.Size(parts.steps.shape), mask=self._mask(parts))
        outputs, taken, state = answered(net.step, net.head, parts, units)
        broken = not_finite(outputs) if net.check_finite else ()
        per_token = outputs.ndim > 2 and outputs.shape[:2] == net.step.read(state).shape[:2]
        each, answers = zip(parts.rows.tolist(), outputs.unbind(), taken.unbind(), strict=True), []
        for place, (number, output, steps) in enumerate(each):
            end = self.lengths.pop(number, None)
            if place in broken:
                answers.append(Answer(number, error=FloatingPointError("the answer has NaN or infinite numbers")))
                continue
            answers.append(Answer(number, output[:end] if per_token else output, steps[:end] if steps.ndim else steps))
        return answers

    def _mask(self, parts: Parts) -> Tensor | None:
        """True for what is not padding `[batch, token]`, or None where requests have no tokens."""
        read = self.net.step.read(parts.state)
        if not self.tokens or read.ndim < 3:
            return None
        lengths = torch.tensor([self.lengths[number] for number in parts.rows.tolist()], device=read.device)
        return torch.arange(read.shape[1], device=read.device) < lengths[:, None]


def _deepest_first(asked: list[Asked]) -> list[Asked]:
    """Where each is told how deep it goes, the quick ones fill the slots beside those that take long, and none of these is left
    over at the end."""
    told = [depth for _, request in asked if (depth := whole_depth(request)) is not None]
    return [asked[i] for i in sorted(range(len(asked)), key=lambda i: -told[i])] if len(told) == len(asked) else asked
