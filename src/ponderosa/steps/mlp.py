"""A multi-layer perceptron on the input and the state."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ponderosa.steps.base import Step


class MLPStep(Step):
    """The next state is tanh(W2 relu(W1 [x, h])): state `[batch, ..., hidden_size]`.

    Args:
        input_size: the last axis of x.
        hidden_size: the size of the state.
        width: of the hidden layer; as wide as the state if not given.
    """

    tokenwise = True

    def __init__(self, input_size: int, hidden_size: int, width: int | None = None):
        super().__init__()
        self.inward = nn.Linear(input_size, width or hidden_size)
        self.onward = nn.Linear(hidden_size, width or hidden_size, bias=False)
        self.outward = nn.Linear(width or hidden_size, hidden_size)
        self.size = hidden_size

    def initial_state(self, x: Tensor) -> Tensor:
        return x.new_zeros(*x.shape[:-1], self.outward.out_features, dtype=self.outward.weight.dtype)

    def prepare(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.inward(x)

    def advance(self, context: Tensor, state: Tensor, n: int) -> Tensor:
        return torch.tanh(self.outward(F.relu(context + self.onward(state))))
