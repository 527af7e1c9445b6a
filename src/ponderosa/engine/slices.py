"""Large batches in slices: what a layer makes of one then fits into memory that the process has already. Asked for tens of
megabytes, the C library fetches fresh pages from the system for every layer, which may take as long as the layer itself."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from ponderosa.engine.rows import check_rows, select
from ponderosa.halting.base import Halting, Memory, Units
from ponderosa.steps.base import Step
from ponderosa.tree import Tree

BYTES = 7 * 2**20
"""Of a slice's states: those inside a layer are four times as large, and below 32 MB the C library keeps what it has."""


def at_once(step: Step, halting: Halting, read: Tensor) -> int:
    """How many examples of a batch to compute together: all, unless they are many and see nothing of each other."""
    batch = len(read)
    if halting.unit == "batch" or step.training or torch.is_grad_enabled() or read.device.type != "cpu":
        return batch
    return min(batch, max(1, batch * BYTES // max(read.nbytes, 1)))


def slices(
    context: Tree, state: Tree, units: Units, memory: Memory, examples: int
) -> Iterator[tuple[slice, Tree, Tree, Units, Memory]]:  # fmt: skip
    """So many examples at a time, and which of the batch they are."""
    batch, *others = units.shape
    if examples >= batch:
        yield slice(0, batch), context, state, units, memory
        return
    check_rows((context, memory), batch)
    for start in range(0, batch, examples):
        rows = slice(start, min(start + examples, batch))
        context_part, state_part, mask, memory_part = select((context, state, units.mask, memory), rows)
        own = replace(units, shape=torch.Size([rows.stop - start, *others]), mask=mask)
        yield rows, context_part, state_part, own, memory_part
