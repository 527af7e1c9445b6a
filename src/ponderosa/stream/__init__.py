"""Inference on a queue of requests of any lengths: batches stay full, whatever the spread of depths."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import Any

from ponderosa.ponder import Ponder
from ponderosa.steps.transformer import TokenStep
from ponderosa.stream.request import Answer, Request
from ponderosa.stream.server import Server
from ponderosa.stream.traffic import Traffic
from ponderosa.tree import Tree

__all__ = ["Answer", "Request", "Stream"]


class Stream:
    """Answers requests with a network whose batches stay full: a slot is filled again as soon as its example halts.

    >>> import ponderosa as po, torch
    >>> net = po.Ponder(po.GRUStep(4, 8), po.LAC(), head=torch.nn.Linear(8, 2), max_steps=10)
    >>> stream = po.Stream(net, slots=8)
    >>> len([answer.result() for answer in stream(torch.randn(100, 4))])
    100

    From several threads: `stream.submit(x).result()`. In asyncio: `await stream.ask(x)`. A request is an input without the
    batch axis, or a `Request` that says more about it.

    Args:
        net: a network, or a model that `po.adapt` made; it is put in evaluation mode.
        slots: the examples in a batch; an encoder, and what is computed once, may see eight times as many together.
        ordered: whether answers come in the order of the requests, or each as soon as it is there.
        tokens: whether a request's first axis counts tokens, which may be more or fewer in the next one; by default where
            tokens halt, or attend to each other, unless the encoder makes them (`PatchEncoder`). For images to a vision
            transformer of `po.adapt`: False.
        waiting: the most requests held in memory; further ones are not drawn or, when submitted, have to wait.
    """

    def __init__(
        self, net: Ponder | Any, *, slots: int = 32, ordered: bool = True, tokens: bool | None = None, waiting: int = 1024
    ):  # fmt: skip
        net = getattr(net, "net", net)
        if net.halting.unit == "batch":
            raise ValueError('unit="batch" halts all examples of a batch together, but a stream has none: use unit="example"')
        if slots < 1 or waiting < slots:
            raise ValueError(f"slots={slots}, waiting={waiting}: one slot at least, and room for as many requests as slots")
        if tokens is None:
            counts = not getattr(net.encoder, "makes_tokens", False)
            tokens = counts and (isinstance(net.step, TokenStep) or net.halting.unit == "token")
        self.ordered, self.waiting = ordered, waiting
        self._about = net.eval(), slots, tokens
        self._server: Server | None = None
        self._lock = threading.Lock()

    def __call__(self, requests: Iterable[Tree]) -> Iterator[Answer]:
        """Answer requests as they are drawn from any iterable: it may be endless."""
        traffic, source = Traffic(*self._about), enumerate(requests)
        early: dict[int, Answer] = {}
        answered, ended = 0, False
        while not ended or traffic.busy:
            wanted = 0 if ended else min(traffic.wanted, self.waiting - traffic.asked + answered)
            for number, request in itertools.islice(source, wanted):
                traffic.ask(number, request)
                wanted -= 1
            ended = ended or wanted > 0
            early |= {answer.index: answer for answer in traffic.round()}
            for answer in self._ready(early, answered):
                answered += 1
                yield answer

    def _ready(self, early: dict[int, Answer], answered: int) -> list[Answer]:
        """The answers whose turn it is, taken out of those that are there."""
        turn = list(early)
        if self.ordered:
            turn = list(itertools.takewhile(early.__contains__, itertools.count(answered)))
        return [early.pop(index) for index in turn]

    def submit(self, request: Tree) -> Future[Answer]:
        """Ask from any thread. Waits while too many requests are waiting already."""
        with self._lock:
            if self._server is None:
                self._server = Server(Traffic(*self._about), self.waiting)
            return self._server.submit(request)

    async def ask(self, request: Tree) -> Answer:
        """Ask from asyncio."""
        return await asyncio.wrap_future(await asyncio.to_thread(self.submit, request))

    def close(self) -> None:
        """Answer what was submitted, then end the thread that does."""
        with self._lock:
            if self._server is not None:
                self._server.close()
                self._server = None

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
