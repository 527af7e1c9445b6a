"""What an answer costs: operations really done, and time."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from ponderosa.halting.fixed import Fixed
from ponderosa.measure.batches import first_parameter, to_like
from ponderosa.measure.operations import count
from ponderosa.measure.price import Prices
from ponderosa.ponder import Ponder
from ponderosa.solution import Solution
from ponderosa.tasks.base import Batch
from ponderosa.tree import Tree


@dataclass(frozen=True)
class Cost:
    """Operations per example: two per multiply-add of the matrix products."""

    done: float
    """What this solution takes: everything that has not halted, encoder, gates, routers and heads included."""
    full: float
    """What the network takes at full depth without halting, its padding left out wherever the engine leaves it out."""
    full_padded: float
    """The same on the padded batch, as a network takes it that knows no packing."""

    @property
    def bound(self) -> float:
        """How many times sooner than `full` the answer can be there at most; 1 where there is nothing to do."""
        return self.full / self.done if self.done else 1.0

    def __repr__(self) -> str:
        padded = "" if self.full_padded == self.full else f" ({self.full_padded:,.0f} padded)"
        return (
            f"Cost({self.done:,.0f} operations per example of {self.full:,.0f}{padded}, at most {self.bound:.2f} times sooner)"
        )


def cost(
    net: Ponder, x: Tree, solution: Solution | None = None, *, state: Tree | None = None, mask: Tensor | None = None,
    key: Tensor | None = None, depth: Tensor | None = None,
) -> Cost:  # fmt: skip
    """What a solution costs, in closed form: each part of the network is counted on a row or two, and the steps that the
    units took say how many rows there were. Without a solution, the network answers first.

    It is what has to be done, while the engine carries halted examples of small networks along where gathering the others
    would take longer; `operations` counts these, too. A batch-level mechanism that spans processes needs all of them here.

    >>> import ponderosa as po
    >>> net = po.Ponder(po.GRUStep(4, 8), po.PlannedDepth(), max_steps=5)
    >>> cost(net, torch.ones(2, 4), depth=torch.tensor([1, 3]))
    Cost(960 operations per example of 2,112, at most 2.20 times sooner)
    """
    with evaluating(net):
        if solution is None:
            solution = net(x, state=state, mask=mask, key=key, depth=depth)
        if not len(solution.steps):
            return Cost(0.0, 0.0, 0.0)
        given = {"state": state, "mask": solution.mask if mask is None else mask, "key": key, "depth": depth}
        read = net.step.read(solution.state)
        real, everything = real_tokens(read, given["mask"]), real_tokens(read, None)
        done = Prices(net, solution.max_steps, x, given).total(solution.steps, real)
        limit = max(net.full_depth, solution.max_steps)
        full = Prices(unhalted(net, limit), limit, x, {**given, "depth": None})  # a depth per token means nothing to examples
        depths = torch.full_like(everything[:, 0], limit, dtype=torch.long)
        totals = done, full.total(depths, real), full.total(depths, everything)
    return Cost(*(total / len(read) for total in totals))


def real_tokens(read: Tensor, mask: Tensor | None) -> Tensor:
    """True for what is not padding in a state that is read `[batch, token]`; an example without tokens is one `[batch, 1]`."""
    if mask is not None and read.ndim > 2:
        return mask.to(read.device)
    return torch.ones(read.shape[:2] if read.ndim > 2 else (len(read), 1), dtype=torch.bool, device=read.device)


def operations(net: Ponder, batch: Batch, *, full_depth: bool = False) -> float:
    """Operations per example (two per multiply-add of the matrix products) of one evaluation of `batch`.

    They are counted while the engine runs, so work that is not done does not count.
    """
    return count(_answer(net, batch, full_depth)) / len(batch)


def microseconds(nets: Sequence[Ponder], batch: Batch, *, repeats: int = 20) -> list[tuple[float, float]]:
    """For each network its time per example as it halts, and at full depth: all alternating, the 10th percentile of many."""
    runs = [_answer(net, batch, full_depth) for net in nets for full_depth in (False, True)]
    tenth = [seconds / len(batch) * 1e6 for seconds in alternating(runs, repeats)]
    return list(zip(tenth[::2], tenth[1::2], strict=True))


def alternating(runs: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """The seconds of each run, the 10th percentile of so many: they take turns, so that what slows one slows all."""
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(repeats):
        for run, seen in zip(runs, times, strict=True):
            start = time.perf_counter()
            run()
            seen.append(time.perf_counter() - start)
    return [sorted(seen)[len(seen) // 10] for seen in times]


def _answer(net: Ponder, batch: Batch, full_depth: bool) -> Callable[[], object]:
    """One evaluation of `batch`, as trained or with every step taken."""
    if full_depth:
        net = unhalted(net, net.full_depth)
    net.eval()
    batch = to_like(batch, first_parameter(net))

    def run() -> object:
        with torch.no_grad():
            return net(batch.x, mask=batch.mask, key=batch.key)

    return run


def unhalted(net: Ponder, limit: int) -> Ponder:
    """The same network with nothing that halts."""
    return Ponder(net.step, Fixed(), head=net.head, max_steps=limit, encoder=net.encoder)


@contextmanager
def evaluating(net: Ponder) -> Iterator[None]:
    """Evaluation without gradients; then every module is again in the mode it was in."""
    modes = [(module, module.training) for module in net.modules()]
    net.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training
