"""A stack of layers: step n is layer n."""

from collections.abc import Iterable

from torch import Tensor, nn

from ponderosa.steps.base import Step
from ponderosa.tree import Tree


class Stack(Step):
    """Layers `state -> state` that keep its shape, one after the other; h_0 is the input itself.

    An input of another shape goes through `Ponder(..., encoder=...)` first.

    >>> import torch
    >>> stack = Stack([nn.Linear(4, 4) for _ in range(6)])
    >>> stack.max_steps, stack(torch.ones(2, 4), n=3).shape
    (6, torch.Size([2, 4]))
    """

    tied = False

    def __init__(self, layers: Iterable[nn.Module], *, size: int | None = None):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        if not self.layers:
            raise ValueError("a stack needs at least one layer")
        self.max_steps = len(self.layers)
        self.size = size if size is not None else getattr(self.layers[-1], "out_features", None)

    def initial_state(self, x: Tree) -> Tree:
        return x

    def prepare(self, x: Tree, mask: Tensor | None = None) -> None:
        return None  # the layers see only the state: there is nothing to carry along

    def advance(self, context: None, state: Tensor, n: int) -> Tensor:
        return self.layers[n - 1](state)
