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
    return _dense(x, mixture.mixed, weight, _biases(mixture, bias), counts)


def matrices_first(x: Tensor, mixture: Mixture, weight: Tensor, bias: Tensor | None, counts: Counts) -> Tensor:
    """All modules' weights, then each example's mixture of them."""
    return _dense(x, mixture.scores, _combine(mixture.values, weight), _biases(mixture, bias), counts)


def outputs_last(x: Tensor, mixture: Mixture, weight: Tensor, bias: Tensor | None, counts: Counts) -> Tensor:
    """Every row through all modules, then the mixture of what they give: no example has weights of its own."""
    modules, scores = _combine(mixture.values, weight), _each_row(mixture.scores, x, counts)
    every = (x.flatten(0, -2) @ modules.transpose(0, 1).flatten(1)).view(-1, len(modules), weight.shape[2])
    out = torch.bmm(scores.flatten(0, -2)[:, None], every).view(*x.shape[:-1], weight.shape[2])
    biases = _biases(mixture, bias)
    return out if biases is None else out + _each_row(biases, x, counts)


Contraction = Callable[[Tensor, Mixture, Tensor, Tensor | None, Counts], Tensor]


@dataclass(frozen=True)
class Shape:
    """Of a dense layer that is generated."""

    modules: int
    """In the pool."""
    value: int
    """The numbers in the value of one of them."""
    inputs: int
    outputs: int
    bias: bool = True

    def operations(self, contraction: Contraction, examples: int, rows: int) -> int:
        """What a contraction does for so many examples and rows: two operations per multiply-add."""
        each_weight: dict[Contraction, int] = {  # how often it is multiplied
            embeddings_first: examples * self.value + rows,
            matrices_first: self.modules * (self.value + examples) + rows,
            outputs_last: self.modules * (self.value + rows),
        }
        mixed_outputs = rows * self.modules * self.outputs if contraction is outputs_last else 0
        biases = examples * self.value * self.outputs if self.bias else 0
        return 2 * (each_weight[contraction] * self.inputs * self.outputs + mixed_outputs + biases)

    def cheapest(self, examples: int, rows: int) -> Contraction:
        """The contraction with the fewest operations."""
        return min(CONTRACTIONS, key=lambda contraction: self.operations(contraction, examples, rows))


CONTRACTIONS: tuple[Contraction, ...] = (embeddings_first, matrices_first, outputs_last)


def _combine(coefficients: Tensor, matrices: Tensor) -> Tensor:
    """Sums of matrices `[k, inputs, outputs]`, one for each row of coefficients `[n, k]`: `[n, inputs, outputs]`."""
    return (coefficients @ matrices.flatten(1)).view(len(coefficients), *matrices.shape[1:])


def _biases(mixture: Mixture, bias: Tensor | None) -> Tensor | None:
    return None if bias is None else mixture.mixed @ bias


def _each_row(values: Tensor, x: Tensor, counts: Counts) -> Tensor:
    """What each example has `[example, ...]`, for each of its rows."""
    if counts is None:
        return values[:, None].expand(*x.shape[:-1], -1)
    return values.repeat_interleave(torch.tensor(counts, device=values.device), 0, output_size=len(x))


CACHE = 2_000_000
"""So many weights are generated and used at a time where no gradient needs them later: many more would leave the cache."""


def _dense(x: Tensor, coefficients: Tensor, matrices: Tensor, biases: Tensor | None, counts: Counts) -> Tensor:
    """Each example's rows through its own dense layer, the sum of `matrices` with its coefficients: some inputs at a time."""
    inputs, outputs = matrices.shape[1:]
    few = inputs if torch.is_grad_enabled() else max(CACHE // max(len(coefficients) * outputs, 1), 1)
    out = _apply(x[..., :few], _combine(coefficients, matrices[:, :few]), biases, counts)
    for first in range(few, inputs, few):
        part = slice(first, first + few)
        out += _apply(x[..., part], _combine(coefficients, matrices[:, part]), None, counts)
    return out


WASTE = 1.25
"""Rows may be padded to this many times their number: one call for all examples is worth it."""


def _apply(x: Tensor, weights: Tensor, biases: Tensor | None, counts: Counts) -> Tensor:
    """Each example's rows through its weights `[example, inputs, outputs]` and biases `[example, outputs]`."""
    if counts is None:
        return torch.bmm(x, weights) if biases is None else torch.baddbmm(biases[:, None], x, weights)
    most = max(counts, default=0)
    if len(set(counts)) == 1:
        return _apply(x.unflatten(0, (len(counts), most)), weights, biases, None).flatten(0, 1)
    parts = x.split(list(counts))
    if most * len(counts) <= WASTE * len(x):
        padded = _apply(pad_sequence(parts, batch_first=True), weights, biases, None)
        return torch.cat([one[:count] for one, count in zip(padded, counts, strict=True)])
    if biases is None:
        return torch.cat([part @ weight for part, weight in zip(parts, weights, strict=True)])
    return torch.cat([torch.addmm(b, part, weight) for part, weight, b in zip(parts, weights, biases, strict=True)])
