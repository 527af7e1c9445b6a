"""What an answer costs: operations really done, and time."""

import time
from collections.abc import Callable, Sequence

import torch
from torch.utils.flop_counter import FlopCounterMode

from ponderosa.halting.fixed import Fixed
from ponderosa.measure.evaluate import to_like
from ponderosa.ponder import Ponder
from ponderosa.tasks.base import Batch


def operations(net: Ponder, batch: Batch, *, full_depth: bool = False) -> float:
    """Operations per example (two per multiply-add of the matrix products) of one evaluation of `batch`.

    They are counted while the engine runs, so work that is not done does not count.
    """
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        _answer(net, batch, full_depth)()
    return counter.get_total_flops() / len(batch)


def microseconds(nets: Sequence[Ponder], batch: Batch, *, repeats: int = 20) -> list[tuple[float, float]]:
    """For each network its time per example as it halts, and at full depth: all alternating, the 10th percentile of many."""
    runs = [_answer(net, batch, full_depth) for net in nets for full_depth in (False, True)]
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(repeats):
        for run, seen in zip(runs, times, strict=True):
            start = time.perf_counter()
            run()
            seen.append(time.perf_counter() - start)
    tenth = [sorted(seen)[len(seen) // 10] / len(batch) * 1e6 for seen in times]
    return list(zip(tenth[::2], tenth[1::2], strict=True))


def _answer(net: Ponder, batch: Batch, full_depth: bool) -> Callable[[], object]:
    """One evaluation of `batch`, as trained or with every step taken."""
    if full_depth:
        net = Ponder(net.step, Fixed(), head=net.head, max_steps=net.max_steps, encoder=net.encoder)
    net.eval()
    batch = to_like(batch, next(net.parameters()))

    def run() -> object:
        with torch.no_grad():
            return net(batch.x, mask=batch.mask, key=batch.key)

    return run
