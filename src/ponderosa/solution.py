"""What comes out of a run: the answer, the share of each step in it, and the steps taken."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ponderosa.tree import Tree


@dataclass
class Solution:
    """The answer of an adaptive network for one batch.

    `U` stands for the units' axes: `[batch]`, or `[batch, token]` where tokens halt on their own.
    """

    output: Tensor
    """The head's answer `[batch, ...]`; without a head, the weighed state."""
    weights: Tensor
    """The share of each step in the answer `[max_steps, U]`; a unit's shares sum to 1 (padding: 0)."""
    steps: Tensor
    """The steps each unit took `[U]`, integers (padding: 0)."""
    state: Tree
    """The weighed state, in the structure of the step's own state."""
    outputs: Tensor | None = None
    """Each step's own answer `[steps run, batch, ...]`, where the mechanism trains all of them."""
    mask: Tensor | None = None
    """True for what is not padding `[batch, token]`, as given."""
    distribution: bool = False
    """Whether `weights` are probabilities of halting (PonderNet in training), so that `steps` is only a limit."""

    @property
    def max_steps(self) -> int:
        return self.weights.shape[0]

    @property
    def expected_steps(self) -> Tensor:
        """The mean step under the weights `[U]`: differentiable where the weights are."""
        n = torch.arange(1, self.max_steps + 1, device=self.weights.device, dtype=self.weights.dtype)
        return torch.tensordot(n, self.weights, dims=1)

    @property
    def depth(self) -> Tensor:
        """The steps of each real unit, flat: taken, or expected where nothing is decided yet."""
        depth = self.expected_steps.detach() if self.distribution else self.steps.to(self.weights.dtype)
        return depth[self.mask] if self._per_token and self.mask is not None else depth.flatten()

    @property
    def mean_steps(self) -> float:
        """The mean of `depth`; 0 for an empty batch."""
        return float(self.depth.mean()) if self.depth.numel() else 0.0

    @property
    def _per_token(self) -> bool:
        return self.mask is not None and self.steps.shape == self.mask.shape

    def __repr__(self) -> str:
        kind = "token" if self.steps.ndim > 1 else "example"
        depth = self.depth
        if not depth.numel():
            return f"Solution(no {kind}s)"
        return (
            f"Solution({depth.numel()} {kind}s, {self.mean_steps:.2f} steps on average, "
            f"{depth.min():.3g} to {depth.max():.3g} of {self.max_steps})"
        )
