"""Fair timing on a machine that others use, too: candidates take turns, and a low percentile of many runs counts."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import torch

RUNS = 20
"""Runs of one candidate in each of its turns: enough to find its own data in the cache again, as in training."""


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """One thread for torch, and as many as before afterwards."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def time_runs(function: Callable[[], object], runs: int = RUNS) -> list[float]:
    """The seconds of each of several runs."""
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return seconds


def percentile(values: list[float], share: float = 0.1) -> float:
    """The value below which `share` of the values lie: the low ones are those that nobody disturbed.

    >>> percentile([5.0, 1.0, 4.0, 2.0, 3.0], 0.25)
    2.0
    """
    return float(torch.tensor(values, dtype=torch.float64).quantile(share))


class Candidate(Protocol):
    """What can take a turn."""

    def turn(self) -> list[float]: ...


def alternate(candidates: Mapping[str, Candidate], rounds: int, after_round: Callable[[], object]) -> dict[str, list[float]]:
    """The seconds of every run, from as many rounds in which each candidate has one turn."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, candidate in candidates.items():
            seconds[name] += candidate.turn()
        after_round()
    return seconds


class Worker:
    """A candidate in a process of its own, so that neither its memory nor its imports touch the others'.

    The process runs `module`, which calls `serve`; it waits, idle, while it is not its turn.
    """

    def __init__(self, module: str, *arguments: str, **environment: str):
        self.name = " ".join((module, *arguments))
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        )  # fmt: skip

    def ask(self, question: str) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            print(question, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self.name} ended early: its own message stands above")
        return json.loads(answer)

    def turn(self) -> list[float]:
        return self.ask("turn")

    def close(self) -> None:
        self.process.communicate()  # the end of its questions ends it


def serve(answers: Mapping[str, Callable[[], object]]) -> None:
    """In a worker: answer each question on the standard input with a line of JSON, until there are no more."""
    replies, sys.stdout = sys.stdout, sys.stderr  # what a library prints is no reply
    for question in sys.stdin:
        print(json.dumps(answers[question.strip()]()), file=replies, flush=True)
