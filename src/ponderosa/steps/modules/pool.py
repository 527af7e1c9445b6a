"""A pool of modules and the router that mixes them for an example."""

import torch
from torch import Tensor, nn

from ponderosa.steps.modules.contraction import Mixture


class Pool(nn.Module):
    """Modules as embeddings, each split into a key and a value, and the router that attends from a pooled state to the keys.

    Args:
        size: of the pooled state.
        modules: how many.
        embedding: the size of each, half of it key and half value.
        temperature: the scores are divided by it before the softmax: lower picks, higher blends.
    """

    def __init__(self, size: int, modules: int, embedding: int, temperature: float):
        super().__init__()
        half = embedding // 2
        self.temperature = temperature
        self.query = nn.Sequential(nn.LayerNorm(size), nn.Linear(size, half))
        self.keys = nn.Parameter(torch.randn(modules, half))
        # Half of a value's variance is common to all: then mixtures, even or not, have much the same size as a single one.
        values = torch.randn(1, embedding - half) + torch.randn(modules, embedding - half)
        self.values = nn.Parameter(values / values.mean(0).square().mean().sqrt())

    def forward(self, pooled: Tensor) -> Mixture:
        """How examples mix the modules, given their pooled states `[example, size]`."""
        scores = self.query(pooled) @ self.keys.T / (self.keys.shape[1] ** 0.5 * self.temperature)
        scores = scores.softmax(-1)
        return Mixture(scores, self.values, scores @ self.values)
