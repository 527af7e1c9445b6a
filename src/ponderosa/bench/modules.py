"""`ponderosa bench modules`: what hyper-modules cost in time and memory, and whether the cheapest contraction is chosen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ponderosa.bench.engine import alternate_for, peak_memory
from ponderosa.bench.timing import one_thread, percentile
from ponderosa.measure.environment import environment
from ponderosa.steps import HyperModules, TransformerStep
from ponderosa.steps.modules.contraction import CONTRACTIONS, Counts, Mixture, Shape
from ponderosa.steps.modules.generator import FullGenerator, Generator

SHAPES = ((64, 24, 64), (384, 24, 8), (384, 100, 1))
"""Width, tokens and examples."""
LAYERS = tuple(
    (Shape(modules, value, width, 4 * width), examples, rows)
    for width in (64, 384) for modules, value in ((32, 32), (8, 32), (4, 64)) for examples, rows in ((1, 24), (32, 24), (32, 1))
)  # fmt: skip
"""Dense layers to generate, for so many examples and rows of each."""
HEADS, SECONDS = 4, 2.0
FULL = "hyper-modules"


def bench_modules(shapes: Any = SHAPES, layers: Any = LAYERS, seconds: float = SECONDS) -> dict[str, Any]:
    """One step of a block with hyper-modules against plain blocks and weights for each token, and the three contractions."""
    with one_thread():
        found = [
            row
            for width, tokens, examples in shapes for training in (False, True)
            for row in _blocks(width, tokens, examples, training, seconds)
        ]  # fmt: skip
        contractions = [_contractions(shape, examples, rows, seconds / 4) for shape, examples, rows in layers]
    return {
        "benchmark": "modules", "environment": {**environment(), "threads": 1}, "rows": found, "contractions": contractions,
    }  # fmt: skip


class EachToken(Generator):
    """The naive way: every token's weights are generated, though those of an example are all the same."""

    def __init__(self, generator: FullGenerator):
        super().__init__()
        self.generator, self.shape = generator, generator.shape

    def forward(self, x: Tensor, mixture: Mixture, counts: Counts) -> Tensor:
        value = mixture.mixed[:, None].expand(*x.shape[:2], -1).flatten(0, 1)
        weights = (value @ self.generator.weight.flatten(1)).unflatten(1, self.generator.weight.shape[1:])
        assert self.generator.bias is not None
        out = torch.baddbmm((value @ self.generator.bias)[:, None], x.flatten(0, 1)[:, None], weights)
        return out.view(*x.shape[:2], -1)

    def operations(self, examples: int, rows: int) -> int:
        return 2 * rows * (self.shape.value + 1) * self.shape.inputs * self.shape.outputs


def blocks(width: int) -> dict[str, TransformerStep]:
    """A block with hyper-modules, and what it is compared with; the naive one has its weights."""
    torch.manual_seed(0)
    hyper, naive = (TransformerStep(width, HEADS, modulation=HyperModules()) for _ in range(2))
    naive.load_state_dict(hyper.state_dict())
    assert naive.hyper is not None
    for slot, generator in naive.hyper.generators.items():
        naive.hyper.generators[slot] = EachToken(generator)  # type: ignore[index, arg-type]
    plain = TransformerStep(width, HEADS)
    wider = 4 * width + (parameters(hyper) - parameters(plain)) // (2 * width + 1)
    return {
        "plain": plain,
        "plain, equal parameters": TransformerStep(width, HEADS, mlp_size=wider),
        "factors of rank width/8": TransformerStep(width, HEADS, modulation=HyperModules(rank=width // 8)),
        FULL: hyper,
        "naive, each token": naive,
    }


def parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def _blocks(width: int, tokens: int, examples: int, training: bool, seconds: float) -> list[dict[str, Any]]:
    steps, x = blocks(width), torch.randn(examples, tokens, width)

    def run(step: TransformerStep) -> Callable[[], object]:
        if not training:
            return torch.no_grad()(lambda: step(x))

        def both() -> None:
            step(x).sum().backward()
            step.zero_grad()

        return both

    runs = {name: run(step) for name, step in steps.items()}
    times = {name: percentile(turns) for name, turns in alternate_for(runs, seconds * len(runs)).items()}
    return [
        {
            "width": width, "tokens": tokens, "examples": examples, "training": training, "block": name,
            "parameters": parameters(steps[name]), "ms": round(1000 * seconds, 3),
            "times_plain": round(seconds / times["plain"], 2), "memory_mb": peak_memory(runs[name]),
        }
        for name, seconds in times.items()
    ]  # fmt: skip


@torch.no_grad()
def _contractions(shape: Shape, examples: int, rows: int, seconds: float) -> dict[str, Any]:
    generator, values = FullGenerator(shape), torch.randn(shape.modules, shape.value)
    scores = torch.randn(examples, shape.modules).softmax(-1)
    mixture, x = Mixture(scores, values, scores @ values), torch.randn(examples, rows, shape.inputs)

    def run(contract: Callable[..., Tensor]) -> Callable[[], Tensor]:
        return torch.no_grad()(lambda: contract(x, mixture, generator.weight, generator.bias, None))

    runs = {contract.__name__: run(contract) for contract in CONTRACTIONS}
    answers = torch.stack([run() for run in runs.values()])
    times = {name: percentile(turns) for name, turns in alternate_for(dict(runs), 3 * seconds).items()}
    chosen = shape.cheapest(examples, examples * rows).__name__
    return {
        "modules": shape.modules, "value": shape.value, "inputs": shape.inputs, "outputs": shape.outputs, "examples": examples,
        "rows": rows, **{f"{name}_ms": round(1000 * t, 3) for name, t in times.items()}, "chosen": chosen,
        "chosen_over_fastest": round(times[chosen] / min(times.values()), 2),
        "difference": float((answers.amax(0) - answers.amin(0)).max()),
    }  # fmt: skip
