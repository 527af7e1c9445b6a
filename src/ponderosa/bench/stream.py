"""`ponderosa bench stream`: requests per second of a stream, and how long each waits, against fixed batches."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from ponderosa.bench.cases import LIMIT, SPREADS, Case, depths
from ponderosa.bench.engine import alternate_for
from ponderosa.bench.timing import one_thread, percentile
from ponderosa.measure.environment import environment
from ponderosa.ponder import Ponder
from ponderosa.stream import Answer, Request, Stream
from ponderosa.stream.traffic import AHEAD

SLOTS = 32
QUICK = 4
"""So many times as many requests for the GRU, whose steps are quick: what counts is a long queue, not its end."""
TURNS = 8
"""At least, however long they take: what is 3 % slower must show."""
CASES = (
    Case("stack", 384, "example", SLOTS, 32, ""), Case("tied", 384, "example", SLOTS, 32, ""),
    Case("gru", 1024, "example", SLOTS, 1, ""),
)  # fmt: skip


def bench_stream(*, requests: int = 320, million: bool = True, progress: bool = True) -> dict[str, Any]:
    """Measure the throughput of a stream of requests, and its latency under a steady arrival.

    In turns with the same requests in fixed batches: compacted, and until all of a batch have halted; and with the ideal,
    full batches for just the steps that are needed.
    """
    rows, latencies = [], []
    held = memory() if million else None  # first: a process remembers only the most it ever held
    with one_thread(), tqdm(total=len(CASES) * len(SPREADS), disable=not progress, unit="case") as bar:
        for case in CASES:
            for spread in SPREADS:
                bar.set_description(f"{case.model} {spread}")
                rows.append(throughput(case, spread, _enough(requests, case, spread)))
                if spread == "skewed":
                    latencies.append(latency(case, spread, rows[-1]["requests_per_second"]))
                bar.update()
        found = {"rows": rows, "latency": latencies, "memory": held}
    return {"benchmark": "stream", "environment": {**environment(), "threads": 1, "slots": SLOTS}, **found}


def _enough(requests: int, case: Case, spread: str) -> int:
    """Fewer where all take equally long: there is no queue's end to make small, and shorter runs have more turns."""
    requests *= QUICK if case.model == "gru" else 1
    return requests if spread != "constant" else max(requests // 4 // SLOTS, 1) * SLOTS


def throughput(case: Case, spread: str, count: int, seconds: float = 30.0) -> dict[str, Any]:
    """One row: the same requests through the stream and in fixed batches."""
    net = case.net()
    x, depth = _requests(case, spread, count)
    wanted = [Request(row, depth=int(d)) for row, d in zip(x, depth, strict=True)]
    batches = list(zip(x.split(SLOTS), depth.split(SLOTS), strict=True))
    runs: dict[str, Callable[[], object]] = {
        "ours": lambda: _drain(Stream(net, slots=SLOTS, ordered=False)(wanted)),
        "compacted": lambda: [net(part, depth=d) for part, d in batches],
        "stop": lambda: [_until_all_halted(net, part, int(d.max())) for part, d in batches],
        "full": lambda: _until_all_halted(net, batches[0][0], LIMIT),  # one batch is like the other
        "ideal": _ideal(net, x, depth),
    }
    with torch.no_grad():
        turns = alternate_for(runs, seconds, seldom=("stop",), least=TURNS)
    times = {name: percentile(seen) for name, seen in turns.items()}
    times["full"] *= count / SLOTS
    ours = times["ours"]
    return {
        "model": case.model, "width": case.width, "length": case.length, "spread": spread,
        "requests_per_second": round(count / ours, 1), "share": round(times["ideal"] / ours, 3),
        "over_compacted": round(times["compacted"] / ours, 3), "over_stop": round(times["stop"] / ours, 3),
        "over_full": round(times["full"] / ours, 3), "bound": round(times["full"] / times["ideal"], 3),
    }  # fmt: skip


def _requests(case: Case, spread: str, count: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    shape = (case.width,) if case.model == "gru" else (case.length, case.width)
    return torch.randn(count, *shape, generator=generator), depths(spread, (count,), generator)


def _drain(answers: Iterator[Answer]) -> None:
    for answer in answers:
        answer.result()


def _until_all_halted(net: Ponder, x: Tensor, steps: int) -> Tensor:
    context, state = net.step.prepare(x), net.step.initial_state(x)
    for n in range(1, steps + 1):
        state = net.step.advance(context, state, n)
    return state


def _ideal(net: Ponder, x: Tensor, depth: Tensor) -> Callable[[], object]:
    """The steps that are needed, in full batches, begun as many together as a stream does: nothing waits, is gathered or
    decided."""
    state, context = net.step.initial_state(x[:SLOTS]), net.step.prepare(x[:SLOTS])
    needed = [(n, int((depth >= n).sum()) / SLOTS) for n in range(1, LIMIT + 1)]

    def run() -> None:
        for part in x.split(AHEAD * SLOTS):
            net.step.prepare(part)
        for n, batches in needed:
            for _ in range(int(batches)):
                net.step.advance(context, state, n)
            rest = round((batches % 1) * SLOTS)
            if rest:
                net.step.advance(_first(context, rest), state[:rest], n)

    return run


def _first(context: Any, rows: int) -> Any:
    return {"mask": None} if isinstance(context, dict) else context[:rows]


def latency(case: Case, spread: str, capacity: float, load: float = 0.7, count: int = 200) -> dict[str, Any]:
    """How long requests take that arrive one by one, at a steady pace of `load` times what the stream can do at most."""
    net = case.net()
    x, depth = _requests(case, spread, count)
    pace, waits = 1 / (load * capacity), [0.0] * count
    finished = threading.Semaphore(0)

    def note(index: int, asked: float) -> Callable[[Future[Answer]], None]:
        def done(_: Future[Answer]) -> None:
            waits[index] = time.perf_counter() - asked
            finished.release()

        return done

    with Stream(net, slots=SLOTS) as stream:
        start = time.perf_counter()
        for index in range(count):
            time.sleep(max(start + index * pace - time.perf_counter(), 0))
            request = Request(x[index], depth=int(depth[index]))
            stream.submit(request).add_done_callback(note(index, time.perf_counter()))
        for _ in range(count):
            finished.acquire()
    return {
        "model": case.model, "spread": spread, "load": load, "arrivals_per_second": round(load * capacity, 1),
        "median_ms": round(1000 * percentile(waits, 0.5), 2), "p99_ms": round(1000 * percentile(waits, 0.99), 2),
    }  # fmt: skip


def memory(count: int = 1_000_000) -> dict[str, Any]:
    """A long queue through a small GRU: what the process holds at most after a tenth of it and at the end."""
    net = Case("gru", 16, "example", SLOTS, 1, "").net()
    generator = torch.Generator().manual_seed(0)
    chosen = torch.randint(1, 4, (count,), generator=generator, dtype=torch.int8)
    asked = (Request(torch.randn(16, generator=generator), depth=int(chosen[i])) for i in range(count))
    start, early = time.perf_counter(), 0.0
    for index, answer in enumerate(Stream(net, slots=1024, waiting=4096)(asked)):
        answer.result()
        if index == count // 10:
            early = _peak()
    seconds = time.perf_counter() - start
    return {"requests": count, "seconds": round(seconds, 1), "peak_mb_at_a_tenth": early, "peak_mb": _peak()}


def _peak() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
