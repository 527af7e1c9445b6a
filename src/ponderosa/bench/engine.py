"""`ponderosa bench engine`: which share of the possible saving the compact engine turns into time."""

from __future__ import annotations

import dataclasses
import os
import random
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from ponderosa.bench.baselines import full_depth, full_packed, ideal, masked, until_all_halted
from ponderosa.bench.cases import Case, grid
from ponderosa.bench.timing import percentile
from ponderosa.measure.cost import cost
from ponderosa.measure.environment import environment
from ponderosa.ponder import Ponder
from ponderosa.solution import Solution

SECONDS = 2.0
"""For the turns of one case in one pass: as many rounds as fit, two at least."""
PASSES = 2
"""Over the whole grid: a minute in which neighbours keep the machine busy then spoils no row alone."""

SELDOM = "masked", "stop"
"""Candidates that are slow and no part of a share: they have fewer turns."""
Turns = dict[str, list[float]]
"""The seconds of each candidate's runs."""
Measured = tuple[Ponder, dict[str, Any], dict[str, Callable[[], object]]]
"""A case's network, the arguments of a call, and the candidates."""


def bench_engine(*, full: bool = False, threads: int = 1, only: str = "", progress: bool = True) -> dict[str, Any]:
    """Measure every case of the grid whose name contains `only`.

    The candidates of a case take turns in one process: ours, the ideal (the same dense layers on just the rows still
    needed), the same weights at full depth, masked, and until all have halted. The 10th percentile of their runs counts, of
    several passes over the grid.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        cases = [case for case in grid(full) if only in str(case)]
        turns: list[Turns] = [{} for _ in cases]
        for _ in range(PASSES - 1):
            for case, seen in zip(_bar(cases, progress), turns, strict=True):
                take_turns(case, seen, without=SELDOM)
        rows = [row(case, seen) for case, seen in zip(_bar(cases, progress), turns, strict=True)]
    finally:
        torch.set_num_threads(before)
    return {"benchmark": "engine", "environment": {**environment(), "threads": threads}, "summary": summary(rows), "rows": rows}


def _bar(cases: list[Case], progress: bool) -> Iterable[Case]:
    bar = tqdm(cases, disable=not progress, unit="case")
    for case in bar:
        bar.set_description(str(case))
        yield case


def take_turns(case: Case, seen: Turns, seconds: float = SECONDS, without: Sequence[str] = ()) -> Measured:
    """Measure one case, and add the times of all candidates but some to those seen before."""
    net, given = case.net(), case.batch_of()
    runs = {name: run for name, run in _candidates(net, given, case).items() if name not in without}
    for name, times in alternate_for(runs, seconds, seldom=SELDOM, least=2).items():
        seen[name] = seen.get(name, []) + times
    return net, given, runs


def row(case: Case, seen: Turns, seconds: float = SECONDS) -> dict[str, Any]:
    """Measure one case for the last time, and say what all its turns came to."""
    net, given, runs = take_turns(case, seen, seconds)
    found, difference = _check(net, given)
    times = {name: percentile(turns) for name, turns in seen.items()}
    ours, full = times["ours"], times.get("packed", times["full"])
    return {
        **dataclasses.asdict(case), "kind": case.kind, "ms": _ms(ours), "speedup": round(full / ours, 3),
        "flop_bound": round(_bound(case, given, found), 3),
        "ideal_bound": round(full / times["ideal"], 3), "share": round(times["ideal"] / ours, 3),
        **{f"{name}_ms": _ms(t) for name, t in times.items() if name != "ours"},
        "difference": difference, "memory_mb": peak_memory(runs["ours"]),
    }  # fmt: skip


def _bound(case: Case, given: dict[str, Any], found: Solution) -> float:
    """The speed-up that the bare count of operations allows: the same in every precision, but counted in this one."""
    net = dataclasses.replace(case, precision="float32").net()
    return cost(net, given["x"].float(), found, mask=given["mask"], depth=given["depth"]).bound


def _candidates(net: Ponder, given: dict[str, Any], case: Case) -> dict[str, Callable[[], object]]:
    x, mask, depth = given["x"], given["mask"], given["depth"]

    def trained(run: Callable[..., Tensor]) -> Callable[[], object]:
        def both() -> None:
            run(net, x, mask, depth).sum().backward()

        return both

    def inference(run: Callable[..., Tensor]) -> Callable[[], object]:
        return torch.no_grad()(lambda: run(net, x, mask, depth))

    wrap = trained if case.training else inference
    engine = "compact" if case.training else None
    candidates = {
        "ours": wrap(lambda n, x, m, d: n(x, mask=m, depth=d, engine=engine).state),
        "ideal": ideal(net, x, mask, depth) if case.training else torch.no_grad()(ideal(net, x, mask, depth)),
        "full": wrap(full_depth), "masked": wrap(masked), "stop": wrap(until_all_halted),
    }  # fmt: skip
    if mask is not None:
        candidates["packed"] = wrap(full_packed)
    return candidates


def alternate_for(
    runs: dict[str, Callable[[], object]], seconds: float, seldom: Sequence[str] = (), least: int = 4
) -> dict[str, list[float]]:  # fmt: skip
    """The seconds of every candidate's runs, taking turns in an order drawn anew each round: what ran before leaves its
    own data in the cache, so nobody may always follow the same one.

    As many rounds as fit into the time, and `least` in any case. Those named `seldom`, which are slow and no part of a share,
    have a turn in every fourth round only.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    end, rounds, draw = time.perf_counter() + seconds, 0, random.Random(0)
    while time.perf_counter() < end or rounds < least:
        for name in draw.sample(list(runs), len(runs)):
            if name in seldom and rounds % 4:
                continue
            start = time.perf_counter()
            runs[name]()
            times[name].append(time.perf_counter() - start)
        rounds += 1
    return times


@torch.no_grad()
def _check(net: Ponder, given: dict[str, Any]) -> tuple[Solution, float]:
    """The solution, and how far it is from the masked unroll's."""
    ours, theirs = net(**given), net(**given, engine="unroll")
    assert torch.equal(ours.steps, theirs.steps)
    real = slice(None) if given["mask"] is None else given["mask"]
    return ours, float((ours.state[real].float() - theirs.state[real].float()).abs().max())


def peak_memory(run: Callable[[], object]) -> float:
    """The most that a run holds at once beyond what was there before, in megabytes."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "9")  # the profiler says on the terminal that it starts and ends
    with torch.profiler.profile(profile_memory=True) as profile:
        run()
    held = most = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    return round(most / 1e6, 3)


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 3)


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures the issue asks for."""

    def shares(training: bool) -> list[float]:
        return sorted(r["share"] for r in rows if r["training"] == training and r["ideal_ms"] >= 10)

    inference, training = shares(False), shares(True)
    idle = [r["speedup"] for r in rows if r["spread"] == "constant" and not r["training"]]
    return {
        "median_share": inference[len(inference) // 2] if inference else None,
        "lowest_share": inference[0] if inference else None,
        "lowest_training_share": training[0] if training else None,
        "slowest_where_nothing_can_be_saved": min(idle, default=None),
        "largest_difference": max((r["difference"] for r in rows if r["precision"] == "float32"), default=None),
    }  # fmt: skip
