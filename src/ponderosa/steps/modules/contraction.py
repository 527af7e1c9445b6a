"""Dense layers whose weights are mixtures: three orders of the same sums, and the cheapest of them.

The weights of module m are V_m G, its value `[value]` through the generator `[value, inputs, outputs]`; an example's are their
mixture with its scores. Rows x are `[example, row, inputs]`, or packed `[rows, inputs]` with `counts` of each example.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

Counts = Sequence[int] | None


@dataclass(frozen=True)
class Mixture:
    """How examples mix the modules of a pool."""

    scores: Tensor
    """`[example, module]`"""
    values: Tensor
    """Of the pool's modules `[module, value]`."""
    mixed: Tensor
    """The value that each example's scores make of them `[example, value]`."""


def embeddings_first(x: Tensor, mixture: Mixture, weight: Tensor, bias: Tensor | None, counts: Counts) -> Tensor:
    """Each example's weights from its own mixed value."""
    return _dense(x, _generate(mixture.mixed, weight), None if bias is None else mixture.mixed @ bias, counts)


def matrices_first(x: Tensor, mixture: Mixture, weight: Tensor, bias: Tensor | None, counts: Counts) -> Tensor:
    """All modules' weights, then each example's mixture of them."""
    weights = _generate(mixture.scores, _generate(mixture.values, weight))
    return _dense(x, weights, None if bias is None else mixture.mixed @ bias, counts)


def outputs_last(x: Tensor, mixture: Mixture, weight: Tensor, bias: Tensor | None, counts: Counts) -> Tensor:
    """Every row through all modules, then the mixture of what they give: no example has weights of its own."""
    modules = _generate(mixture.values, weight)
    scores = _each_row(mixture.scores, x, counts)
    every = x.flatten(0, -2) @ modules.transpose(0, 1).flatten(1)
    out = torch.bmm(scores.flatten(0, -2)[:, None], every.unflatten(1, modules.shape[::2]))[:, 0].view(*x.shape[:-1], -1)
    return out if bias is None else out + _each_row(mixture.mixed @ bias, x, counts)


Contraction = Callable[[Tensor, Mixture, Tensor, Tensor | None, Counts], Tensor]
CONTRACTIONS: dict[Contraction, Callable[[int, int, int, int], int]] = {
    embeddings_first: lambda examples, rows, modules, values: examples * values + rows,
    matrices_first: lambda examples, rows, modules, values: modules * values + examples * modules + rows,
    outputs_last: lambda examples, rows, modules, values: modules * values + rows * modules,
}
"""Each with how often it multiplies by every one of the dense layer's weights."""


def cheapest(examples: int, rows: int, modules: int, values: int) -> Contraction:
    """The contraction with the fewest operations for so many examples and rows, modules in the pool and numbers in a value."""
    return min(CONTRACTIONS, key=lambda contraction: CONTRACTIONS[contraction](examples, rows, modules, values))


def _generate(values: Tensor, weight: Tensor) -> Tensor:
    """Matrices `[n, inputs, outputs]` from values `[n, value]`."""
    return (values @ weight.flatten(1)).view(-1, *weight.shape[1:])


def _each_row(values: Tensor, x: Tensor, counts: Counts) -> Tensor:
    """What each example has `[example, ...]`, for each of its rows."""
    if counts is None:
        return values[:, None].expand(*x.shape[:-1], -1)
    return values.repeat_interleave(torch.tensor(counts, device=values.device), 0, output_size=len(x))


WASTE = 1.25
"""Rows may be padded to this many times their number: one call for all examples is worth it."""


def _dense(x: Tensor, weights: Tensor, biases: Tensor | None, counts: Counts) -> Tensor:
    """Each example's rows through its own dense layer: weights `[example, inputs, outputs]`, biases `[example, outputs]`."""
    if counts is None:
        return torch.bmm(x, weights) if biases is None else torch.baddbmm(biases[:, None], x, weights)
    most = max(counts, default=0)
    if len(set(counts)) == 1:
        return _dense(x.view(len(counts), most, -1), weights, biases, None).flatten(0, 1)
    parts = x.split(list(counts))
    if most * len(counts) <= WASTE * len(x):
        padded = _dense(pad_sequence(parts, batch_first=True), weights, biases, None)
        return torch.cat([one[:count] for one, count in zip(padded, counts, strict=True)])
    if biases is None:
        return torch.cat([part @ weight for part, weight in zip(parts, weights, strict=True)])
    return torch.cat([torch.addmm(b, part, weight) for part, weight, b in zip(parts, weights, biases, strict=True)])
