"""Large batches in slices: what a layer makes of one then fits into memory that the process has already. Asked for tens of
megabytes, the C library fetches fresh pages from the system for every layer, which may take as long as the layer itself."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from ponderosa.engine.rows import select
from ponderosa.halting.base import Halting, Units
from ponderosa.solution import Solution
from ponderosa.tree import Tree, leaves, tree_map

BYTES = 2**23
"""Of a slice's states: those inside a layer are four times as large, and up to 32 MB the C library keeps what it has."""


def at_once(halting: Halting, read: Tensor, x: Tree) -> int:
    """How many examples of a batch to compute together: all, unless they are many and see nothing of each other."""
    batch = len(read)
    whole = halting.unit == "batch" or torch.is_grad_enabled() or read.device.type != "cpu"
    if whole or any(getattr(leaf, "shape", ())[:1] != (batch,) for leaf in leaves(x)):  # an encoder may have made anything
        return batch
    return min(batch, max(1, batch * BYTES // max(read.nbytes, 1)))


def slices(x: Tree, state: Tree, units: Units, examples: int) -> Iterator[tuple[Tree, Tree, Units]]:
    """So many examples at a time."""
    batch, *others = units.shape
    given = x, state, units.inputs, units.mask, units.given_key, units.depth
    for start in range(0, batch, examples):
        end = min(start + examples, batch)
        x_part, state_part, inputs, mask, key, depth = select(given, slice(start, end))
        shape = torch.Size([end - start, *others])
        yield x_part, state_part, replace(units, shape=shape, inputs=inputs, mask=mask, given_key=key, depth=depth)


def together(parts: list[Solution], mask: Tensor | None) -> Solution:
    """The solutions of a batch's slices as that of the batch."""
    output, steps, state = tree_map(lambda *each: torch.cat(each), *((p.output, p.steps, p.state) for p in parts))
    return Solution(output, torch.cat([p.weights for p in parts], 1), steps, state, None, mask)
