"""Hyper-modules (Abnar et al., 2023, section 3.1): a block's weights, generated for each example and step."""

from collections.abc import Mapping

from torch import nn

from ponderosa.steps.modules.base import COMPONENTS, Modulation, Slot, chosen
from ponderosa.steps.modules.contraction import Shape
from ponderosa.steps.modules.generator import FactorisedGenerator, FullGenerator, Generator
from ponderosa.steps.modules.plan import Generated, HyperNetwork
from ponderosa.steps.modules.pool import Pool


class HyperModules(Modulation):
    """The weights of dense layers are mixed from a pool of modules: a router looks at the state of the whole example.

    Each component (queries, keys and values; the attention's output; the feed-forward network) has a pool of its own, which all
    steps and layers share. At each step the mean of an example's tokens, halted ones included, attends to the keys of the
    modules; the mixed value goes through a linear generator that emits the layers' weights. Routing is per example: weights for
    each token would cost as many times more as there are tokens.

    >>> import torch, ponderosa as po
    >>> step = po.TransformerStep(16, 4, modulation=po.HyperModules(modules=4, embedding=8))
    >>> step(torch.randn(2, 5, 16)).shape
    torch.Size([2, 5, 16])

    Args:
        modules: how many a pool has.
        embedding: the size of a module's embedding, half of it key and half value.
        temperature: of the router's softmax.
        rank: generate factors of this rank, added to a dense layer that all examples share; None for full matrices.
        qkv, out, mlp: which components; the others have weights of their own.
    """

    def __init__(
        self, *, modules: int = 32, embedding: int = 64, temperature: float = 1.0, rank: int | None = None,
        qkv: bool = True, out: bool = True, mlp: bool = True,
    ):  # fmt: skip
        if modules < 1 or embedding < 2 or temperature <= 0 or (rank is not None and rank < 1):
            raise ValueError(
                f"modules={modules}, embedding={embedding}, temperature={temperature}, rank={rank}: one module at least, "
                "an embedding that splits in two, a temperature above 0, and a rank of 1 at least"
            )
        self.modules, self.embedding, self.temperature, self.rank = modules, embedding, temperature, rank
        self.components = chosen(qkv=qkv, out=out, mlp=mlp)

    def dense(self, slot: Slot, inputs: int, outputs: int) -> nn.Module:
        return Generated(slot) if COMPONENTS[slot] in self.components else nn.Linear(inputs, outputs)

    def network(self, shapes: Mapping[Slot, tuple[int, int]]) -> HyperNetwork:
        size = shapes["query"][0]
        pools = {name: Pool(size, self.modules, self.embedding, self.temperature) for name in sorted(self.components)}
        generators = {slot: self._generator(*shape) for slot, shape in shapes.items() if COMPONENTS[slot] in pools}
        return HyperNetwork(pools, generators)

    def _generator(self, inputs: int, outputs: int) -> Generator:
        shape = Shape(self.modules, self.embedding - self.embedding // 2, inputs, outputs)
        return FullGenerator(shape) if self.rank is None else FactorisedGenerator(shape, self.rank)
