"""A request, its answer, and requests as a batch."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from ponderosa.tree import Tree, leaves, tree_map


@dataclass(frozen=True)
class Request:
    """One example, without a batch axis, and what its network must be told about it."""

    x: Tree
    key: int | None = None
    """Names the example, for random draws; its content does, if not given."""
    depth: int | Tensor | None = None
    """Its depth for `PlannedDepth`, or one per token `[token]`."""


@dataclass(frozen=True)
class Answer:
    """The answer to one request, or what went wrong with it."""

    index: int
    """Which request, counted from 0 in the order asked."""
    output: Tensor | None = None
    steps: Tensor | None = None
    """The steps taken: a number, or one per token `[token]`."""
    error: Exception | None = None

    def result(self) -> Tensor:
        """The output; raises the error of a request that failed."""
        if self.error is not None:
            raise self.error
        assert self.output is not None
        return self.output


def kind(request: Request, tokens: bool) -> Hashable:
    """What requests must share to be in one batch: the shapes of the input, with its tokens' number rounded up, and what kinds
    of numbers there are."""
    shapes = [(tuple(leaf.shape[1:] if tokens else leaf.shape), leaf.dtype) for leaf in leaves(request.x)]
    depth = request.depth
    told = request.key is None, (depth.ndim, depth.dtype) if isinstance(depth, Tensor) else type(depth)
    return (told, rounded(length(request)) if tokens else None, *shapes)


def length(request: Request) -> int:
    """The number of a request's tokens."""
    counts = {leaf.shape[0] if leaf.ndim else 0 for leaf in leaves(request.x)}
    if len(counts) != 1 or 0 in counts:
        shapes = [list(leaf.shape) for leaf in leaves(request.x)]
        raise ValueError(f"the request's input is {shapes}: the first axis of every tensor must count its tokens, at least one")
    return counts.pop()


def whole_depth(request: Request) -> int | None:
    """A request's depth, where it is told one whole number for all of it."""
    depth = request.depth
    if isinstance(depth, Tensor):
        return None if depth.ndim or depth.is_floating_point() or depth.is_complex() else int(depth)
    return int(depth) if isinstance(depth, Integral) else None


def rounded(length: int) -> int:
    """The number of tokens that requests are padded to, so that many share it: a few sizes for every doubling."""
    grain = max(8, 1 << max((length - 1).bit_length() - 3, 0))
    return -(-length // grain) * grain


def batched(requests: Sequence[Request], lengths: Sequence[int] | None, like: Tensor) -> dict[str, Tree]:
    """Requests of one kind as the arguments of a network call, padded to one length; floats as in `like`."""
    longest = None if lengths is None else rounded(max(lengths))

    def stack(*tensors: Tensor) -> Tensor:
        if longest is None:
            return torch.stack(tensors)
        out = tensors[0].new_zeros(len(tensors), longest, *tensors[0].shape[1:])
        for row, tensor in zip(out, tensors, strict=True):
            row[: len(tensor)] = tensor
        return out

    x = tree_map(lambda *t: stack(*t).to(like.device), *(r.x for r in requests))
    keys, depths = [r.key for r in requests], [r.depth for r in requests]
    return {
        "x": tree_map(lambda t: t.to(like.dtype) if t.is_floating_point() else t, x),
        "mask": None if longest is None else torch.arange(longest) < torch.tensor(lengths)[:, None],
        "key": None if None in keys else torch.tensor(keys),
        "depth": None if depths[0] is None else _depths(depths, stack),
    }


def _depths(depths: list[Any], stack: Callable[..., Tensor]) -> Tensor:
    """One number for each request, or one for each of its tokens."""
    if all(isinstance(depth, int) for depth in depths):
        return torch.tensor(depths)
    whole = [torch.as_tensor(depth) for depth in depths]
    return stack(*whole) if whole[0].ndim else torch.stack(whole)
