"""What the engines are measured on: networks, shapes and spreads of depth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ponderosa.halting import PlannedDepth
from ponderosa.ponder import Ponder
from ponderosa.steps import GRUStep, HyperModules, Step, TransformerStep

LIMIT = 12
BATCHES = (1, 2, 4, 8, 16, 32, 64)
# Depths of the words of 10,000 sentences (Subj), 12 bins of -log mutual information between a word and the label: mean 4.5.
TEXT = (0.0777, 0.1331, 0.1977, 0.1728, 0.1405, 0.0943, 0.071, 0.0637, 0.006, 0.0096, 0.0, 0.0336)
SPREADS = {
    "constant": (*[0.0] * (LIMIT - 1), 1.0),
    "uniform": (1 / LIMIT,) * LIMIT,
    "skewed": (0.0, 0.9, *[0.0] * (LIMIT - 3), 0.1),
    "text": TEXT,
}
"""The share of units at each depth from 1 to 12."""

Precision = Literal["float32", "bfloat16", "int8"]


@dataclass(frozen=True)
class Case:
    """One row of the benchmark."""

    model: Literal["stack", "tied", "hyper", "gru"]
    width: int
    unit: Literal["example", "token"]
    batch: int
    length: int
    spread: str
    padded: bool = False
    """Whether the examples have from a quarter of `length` to all of it, and the rest is padding."""
    precision: Precision = "float32"
    frozen_kv: bool = False
    training: bool = False

    def __str__(self) -> str:
        return f"{self.model}-{self.width} {self.unit} {self.batch}x{self.length} {self.spread} {self.kind}".strip()

    @property
    def kind(self) -> str:
        """What is special about it."""
        marks = {
            "padded": self.padded, "frozen kv": self.frozen_kv, "training": self.training,
            self.precision: self.precision != "float32",
        }  # fmt: skip
        return ", ".join(name for name, on in marks.items() if on)

    def step(self) -> Step:
        torch.manual_seed(0)
        if self.model == "gru":
            return GRUStep(self.width, self.width)
        layers = LIMIT if self.model == "stack" else None
        modulation = HyperModules() if self.model == "hyper" else None
        return TransformerStep(self.width, self.width // 64, layers=layers, frozen_kv=self.frozen_kv, modulation=modulation)

    def net(self) -> Ponder:
        """The network in this precision, in training mode where training is measured."""
        net = Ponder(self.step(), PlannedDepth(unit=self.unit), max_steps=LIMIT)
        net.train(self.training)
        return lower(net, self.precision)

    def batch_of(self) -> dict[str, Any]:
        """The arguments of a call."""
        generator = torch.Generator().manual_seed(0)
        shape = (self.batch,) if self.model == "gru" else (self.batch, self.length)
        x = torch.randn(*shape, self.width, generator=generator)
        mask = None
        if self.padded:
            lengths = torch.randint(self.length // 4, self.length + 1, (self.batch, 1), generator=generator)
            mask = torch.arange(self.length) < lengths
        units = shape if self.unit == "token" else (self.batch,)
        x = x.bfloat16() if self.precision == "bfloat16" else x
        return {"x": x, "mask": mask, "depth": depths(self.spread, units, generator)}


def depths(spread: str, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """A depth per unit, as near to the spread as whole units allow, in random order."""
    units = torch.Size(shape).numel()
    places = (torch.arange(units) + 0.5) / units
    sorted_depths = torch.bucketize(places, torch.tensor(SPREADS[spread]).cumsum(0)).clamp_max(LIMIT - 1) + 1
    return sorted_depths[torch.randperm(units, generator=generator)].view(shape)


def lower(net: Ponder, precision: Precision) -> Ponder:
    """The network in another precision: bfloat16 throughout, or linear layers in int8 with scales found as they run."""
    if precision == "bfloat16":
        return net.bfloat16()
    if precision == "int8":
        return torch.ao.quantization.quantize_dynamic(net, {nn.Linear}, dtype=torch.qint8)
    return net


def grid(full: bool) -> Iterator[Case]:
    """The default grid, which takes about a quarter of an hour, or all combinations."""
    if full:
        for width in (384, 768):
            for length in (32, 64, 128, 256):
                for batch in BATCHES:
                    for spread in SPREADS:
                        yield Case("stack", width, "example", batch, length, spread)
                        yield Case("stack", width, "token", batch, length, spread)
                        yield Case("tied", width, "token", batch, length, spread)
        yield from (Case("gru", 1024, "example", b, 1, s) for b in BATCHES for s in SPREADS)
    else:
        yield from _default()
    yield from _special()


def _default() -> Iterator[Case]:
    for batch in BATCHES:
        for spread in SPREADS:
            yield Case("stack", 384, "example", batch, 32, spread)
        for spread in ("constant", "skewed", "text"):
            yield Case("gru", 1024, "example", batch, 1, spread)
        yield Case("stack", 384, "token", batch, 32, "text")
    for batch in (1, 8, 32):
        for spread in ("skewed", "text"):
            yield Case("tied", 384, "token", batch, 32, spread)
        yield Case("tied", 384, "example", batch, 32, "skewed")
        yield Case("stack", 384, "token", batch, 32, "skewed")
    for batch in (8, 32):
        yield Case("hyper", 384, "example", batch, 32, "skewed")
        yield Case("hyper", 384, "token", batch, 32, "text")
    for length in (64, 128, 256):
        yield Case("stack", 384, "example", 4, length, "skewed")
        yield Case("stack", 384, "token", 4, length, "text")
    for batch in (1, 8):
        yield Case("stack", 768, "example", batch, 64, "skewed")
        yield Case("stack", 768, "token", batch, 64, "text")


def _special() -> Iterator[Case]:
    """Padding, frozen keys and values, lower precision, and training."""
    example, token = Case("stack", 384, "example", 8, 64, "skewed"), Case("stack", 384, "token", 8, 64, "text")
    for case in (example, token):
        yield replace(case, padded=True)
        for precision in ("bfloat16", "int8"):
            yield replace(case, precision=precision)
            yield replace(case, precision=precision, batch=1)
        for batch in (8, 32):
            yield replace(case, training=True, batch=batch, length=32)
    yield replace(token, frozen_kv=True)
    yield replace(token, frozen_kv=True, spread="skewed")
