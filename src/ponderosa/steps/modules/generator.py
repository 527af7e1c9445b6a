"""Weight generators: from the mixed value of an example to its dense layer, whole or in factors."""

from abc import ABC, abstractmethod
from dataclasses import replace

import torch
from torch import Tensor, nn

from ponderosa.steps.modules.contraction import Counts, Mixture, Shape


class Generator(nn.Module, ABC):
    """What stands in the place of a dense layer: rows through the layer that their example's mixture makes."""

    shape: Shape

    @abstractmethod
    def forward(self, x: Tensor, mixture: Mixture, counts: Counts) -> Tensor:
        """Rows `[example, row, inputs]`, or packed `[rows, inputs]` with as many of each example as the counts say."""

    @abstractmethod
    def operations(self, examples: int, rows: int) -> int:
        """What that takes for so many examples and rows."""


class FullGenerator(Generator):
    """Linear, from a value to a dense layer's weights `[inputs, outputs]` and bias.

    They have a dense layer's variance, times the gain squared, if the value's numbers have variance 1.
    """

    def __init__(self, shape: Shape, gain: float = 1.0):
        super().__init__()
        self.shape = shape
        bound = gain / (shape.inputs * shape.value) ** 0.5
        self.weight = nn.Parameter(torch.empty(shape.value, shape.inputs, shape.outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(shape.value, shape.outputs).uniform_(-bound, bound)) if shape.bias else None

    def forward(self, x: Tensor, mixture: Mixture, counts: Counts) -> Tensor:
        contract = self.shape.cheapest(len(mixture.scores), x.shape[:-1].numel())
        return contract(x, mixture, self.weight, self.bias, counts)

    def operations(self, examples: int, rows: int) -> int:
        return self.shape.operations(self.shape.cheapest(examples, rows), examples, rows)


class FactorisedGenerator(Generator):
    """A dense layer that all share, and a generated one of low rank added to it: half of the variance each."""

    def __init__(self, shape: Shape, rank: int):
        super().__init__()
        self.shape = shape
        self.shared = nn.Linear(shape.inputs, shape.outputs)
        with torch.no_grad():
            for parameter in self.shared.parameters():
                parameter.mul_(0.5**0.5)
        self.inward = FullGenerator(replace(shape, outputs=rank, bias=False), 3**0.5)  # keeps the variance of what comes in
        self.outward = FullGenerator(replace(shape, inputs=rank), 0.5**0.5)
        bound = (0.5 / (shape.inputs * shape.value)) ** 0.5  # the bias is that of the whole layer, not of its second factor
        assert self.outward.bias is not None
        nn.init.uniform_(self.outward.bias, -bound, bound)

    def forward(self, x: Tensor, mixture: Mixture, counts: Counts) -> Tensor:
        return self.shared(x) + self.outward(self.inward(x, mixture, counts), mixture, counts)

    def operations(self, examples: int, rows: int) -> int:
        factors = self.inward.operations(examples, rows) + self.outward.operations(examples, rows)
        return 2 * rows * self.shared.weight.numel() + factors
