"""How fast an adaptive classifier answers batches of texts, beside full depth and beside what its rows must take."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ponderosa.bench.baselines import ideal
from ponderosa.bench.timing import one_thread, percentile, time_runs
from ponderosa.engine.head import answer
from ponderosa.halting import Fixed
from ponderosa.measure.cost import cost
from ponderosa.ponder import Ponder
from ponderosa.solution import Solution
from ponderosa.tasks.base import Batch, Task

BATCHES = (1, 4, 8, 15, 32)
TEXTS = 32
"""Texts that are answered in each turn, at least."""
SECONDS = 5.0
"""For the turns of one batch size: as many rounds as fit."""
ROUNDS = 6
"""At least."""


def speed_by_batch(
    net: Ponder, task: Task, sizes: Sequence[int] = BATCHES, full: Ponder | None = None
) -> list[dict[str, Any]]:  # fmt: skip
    """A row for each batch size, of test examples, on one thread; `full` is what it is held against, by default itself at
    full depth (an encoder that was cut has fewer layers)."""
    rows = []
    with one_thread():
        for size in sizes:
            texts = min(TEXTS, task.size("test") or TEXTS)
            batches = [task.batch("test", i, size) for i in range(-(-texts // size))]
            rows.append({"batch": size, **speed(net, batches, full)})
    return rows


@torch.no_grad()
def speed(net: Ponder, batches: Sequence[Batch], full: Ponder | None = None) -> dict[str, Any]:
    """Texts in ten seconds, how many times those of full depth, and the share of what was possible that this is.

    With the time that it takes to estimate the depths (what the mechanism does before the first layer), and without. What is
    possible is the time of the embeddings, of the same dense layers on just the rows still needed, and of the heads that
    have to answer.
    """
    net.eval()
    if full is None:
        full = Ponder(net.step, Fixed(), head=net.head, encoder=net.encoder, max_steps=net.max_steps)
    full.eval()
    inputs = [(batch.x, None if batch.mask is None or bool(batch.mask.all()) else batch.mask) for batch in batches]
    found = [net(x, mask=mask) for x, mask in inputs]
    must = [_ideal(net, x, mask, each) for (x, mask), each in zip(inputs, found, strict=True)]
    begun = [net.begin(x, mask=mask)[1:] for x, mask in inputs]
    runs: dict[str, Sequence[Callable[[], object]]] = {
        "ours": [partial(net, x, mask=mask) for x, mask in inputs],
        "full": [partial(full, x, mask=mask) for x, mask in inputs],
        "estimation": [partial(net.halting.begin, net.step.read(state), units) for state, units in begun],
        "ideal": must,
    }
    times = take_turns(runs, SECONDS)
    done = sum(len(x) * cost(net, x, each, mask=mask).done for (x, mask), each in zip(inputs, found, strict=True))
    whole = sum(len(x) * cost(full, x, mask=mask).full for x, mask in inputs)
    texts, known = sum(map(len, batches)), times["ours"] - times["estimation"]
    return {
        "speed": 10 * texts / times["ours"], "full_speed": 10 * texts / times["full"],
        "speedup": times["full"] / times["ours"], "speedup_known": times["full"] / known,
        "possible": times["full"] / times["ideal"], "bound": whole / done,
        "share": times["ideal"] / times["ours"], "share_known": times["ideal"] / known,
        "estimation_microseconds": 1e6 * times["estimation"] / texts,
    }  # fmt: skip


def take_turns(runs: Mapping[str, Sequence[Callable[[], object]]], seconds: float) -> dict[str, float]:
    """The time of every candidate for all its batches. They take turns of all batches, as a server would run them, in an order
    drawn anew each round; of each batch the 10th percentile over the rounds counts, so that one disturbance spoils one batch
    of one round."""
    seen: dict[str, list[list[float]]] = {name: [] for name in runs}
    for name in runs:
        time_each(runs[name])
    end, rounds, draw = time.perf_counter() + seconds, 0, random.Random(0)
    while time.perf_counter() < end or rounds < ROUNDS:
        for name in draw.sample(list(runs), len(runs)):
            seen[name].append(time_each(runs[name]))
        rounds += 1
    return {name: sum(percentile(list(each)) for each in zip(*turns, strict=True)) for name, turns in seen.items()}


def time_each(calls: Sequence[Callable[[], object]]) -> list[float]:
    """The seconds of each of these calls, one after the other."""
    return [time_runs(call, 1)[0] for call in calls]


def _ideal(net: Ponder, x: Tensor, mask: Tensor | None, found: Solution) -> Callable[[], object]:
    """The embeddings, the layers on the rows that need them, and the answers that have to be given: one for each text, and
    where an exit judges them, one at every layer that the text reached."""
    assert net.encoder is not None
    encoder, head, layers = net.encoder, net.head, ideal(net, net.encoder(x), mask, found.steps)
    depths = found.steps if found.steps.ndim == 1 else found.steps.amax(1)
    judges, deepest = net.halting.reads_output, int(depths.max())
    asked = []
    for n in range(1, deepest + 1) if judges else [deepest]:
        rows = depths >= (n if judges else 0)
        asked.append((found.state[rows], n, None if mask is None else mask[rows]))
    return lambda: (encoder(x), layers(), [answer(head, *each) for each in asked])
