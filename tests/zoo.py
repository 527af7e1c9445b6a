"""Every halting and every step, for the suites that run over all of them: a new one is one line here.

Nets are small, in float64, with weights large enough that units halt at different depths.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

import ponderosa as po
from ponderosa.engine import thrift
from ponderosa.halting.gate import read_units
from ponderosa.halting.losses import answer_loss
from ponderosa.tree import Tree, leaves, tree_map

INPUT, SIZE, CLASSES, LIMIT = 3, 4, 3, 6
EXAMPLE, TOKEN, BOTH, ALL = ("example",), ("token",), ("example", "token"), ("batch", "example", "token")
FLAT, TOKENS = False, True
GATHER, BYTE = thrift.GATHER, thrift.BYTE


def plan(x: Tree) -> Tensor:
    """A depth per example from its own numbers: of tokens the deepest real one. Some lie beyond the limit."""
    if isinstance(x, Tensor):
        return (x[..., 0].abs() * 10).long() % (LIMIT + 2) + 1
    return (plan(x["tokens"]) * x["mask"]).amax(1)


def token_plan(x: Tree) -> Tensor:
    return plan(x["tokens"])


class Loud(po.Halting):
    """A user's own: every step weighs a tenth, and a unit is done once its activations are loud enough."""

    def __init__(self, unit: str):
        super().__init__()
        self.unit = unit

    def begin(self, state: Tensor, units: po.Units) -> dict[str, Tensor]:
        return {} if units.mask is None else {"mask": units.mask}

    def update(self, n: int | Tensor, state: Tensor, output: Tensor | None, memory: dict) -> tuple[Tensor, Tensor, dict]:
        done = read_units(state.detach().abs(), self.unit, memory.get("mask")).mean(-1) > 0.6
        return torch.full_like(done, 0.1, dtype=state.dtype), done, memory

    def loss(self, solution: po.Solution, target: Tensor, criterion: Callable[..., Tensor]) -> Tensor:
        return answer_loss(solution, target, criterion)


HALTINGS: dict[str, tuple[tuple[str, ...], Callable[[str], po.Halting]]] = {
    "loud": (BOTH, Loud),
    "fixed": (EXAMPLE, lambda unit: po.Fixed()),
    "act": (BOTH, lambda unit: po.ACT(tau=0.1, unit=unit)),
    "ponder-sample": (BOTH, lambda unit: po.PonderNet(beta=0.1, unit=unit)),
    "ponder-threshold": (BOTH, lambda unit: po.PonderNet(evaluation="threshold", threshold=0.8, unit=unit)),
    "ponder-reverse": (BOTH, lambda unit: po.PonderNet(beta=0.1, kl="reverse", seed=7, unit=unit)),
    "lac-paper": (ALL, lambda unit: po.LAC(alpha=0.7, unit=unit)),
    "lac-reference": (ALL, lambda unit: po.LAC(rule="reference", alpha=0.3, unit=unit)),
    "lac-late": (EXAMPLE, lambda unit: po.LAC(min_steps=3, alpha=0.1, unit=unit)),
    "planned-number": (ALL, lambda unit: po.PlannedDepth(3, unit=unit)),
    "planned-function": (BOTH, lambda unit: po.PlannedDepth(token_plan if unit == "token" else plan, unit=unit)),
    "random-depth": (EXAMPLE, lambda unit: po.RandomDepth(2, 5)),
    "confidence": (BOTH, lambda unit: po.ConfidenceExit(threshold=0.7, unit=unit)),
    "entropy": (BOTH, lambda unit: po.EntropyExit(threshold=0.6, unit=unit)),
    "patience": (BOTH, lambda unit: po.PatienceExit(patience=1, unit=unit)),
    "halting-unit": (BOTH, lambda unit: po.HaltingUnit(LIMIT, unit=unit)),
    "bounded-act": (BOTH, lambda unit: po.Bounded(po.ACT(unit=unit), min_steps=3, max_steps=5)),
    "bounded-lac": (ALL, lambda unit: po.Bounded(po.LAC(unit=unit), min_steps=2, max_steps=4)),
    "bounded-ponder": (EXAMPLE, lambda unit: po.Bounded(po.PonderNet(unit=unit), min_steps=2, max_steps=4)),
    "bounded-patience": (EXAMPLE, lambda unit: po.Bounded(po.PatienceExit(unit=unit), max_steps=4)),
    "bounded-fixed": (EXAMPLE, lambda unit: po.Bounded(po.Fixed(), max_steps=2)),
    "act-or-lac": (BOTH, lambda unit: po.AnyOf([po.ACT(unit=unit), po.LAC(alpha=0.5, unit=unit)])),
    "ponder-or-lac": (BOTH, lambda unit: po.AnyOf([po.PonderNet(unit=unit), po.LAC(alpha=0.5, unit=unit)])),
    "lac-or-planned": (ALL, lambda unit: po.AnyOf([po.LAC(alpha=0.5, unit=unit), po.PlannedDepth(4, unit=unit)])),
    "lac-or-exit": (BOTH, lambda unit: po.AnyOf([po.LAC(alpha=0.5, unit=unit), po.ConfidenceExit(unit=unit)])),
    "sentence-exit": (
        TOKEN,
        lambda unit: po.SentenceExit(po.PlannedDepth(token_plan, unit=unit), po.ConfidenceExit(threshold=0.7)),
    ),
    "sentence-patience": (TOKEN, lambda unit: po.SentenceExit(po.LAC(alpha=0.7, unit=unit), po.PatienceExit(patience=1))),
    "exit-or-planned": (BOTH, lambda unit: po.AnyOf([po.EntropyExit(unit=unit), po.PlannedDepth(4, unit=unit)])),
}
"""Name: the units it halts, and how to build it."""


class DictCell(nn.Module):
    """A user's own module, whose state is a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.inward, self.onward, self.leak = nn.Linear(INPUT, SIZE), nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE)

    def forward(self, x: Tensor, state: dict[str, Tensor]) -> dict[str, Tensor]:
        slow = 0.5 * state["slow"] + torch.sigmoid(self.leak(state["fast"]))
        return {"slow": slow, "fast": torch.tanh(self.inward(x) + self.onward(state["fast"]) + slow)}

    @staticmethod
    def start(x: Tensor) -> dict[str, Tensor]:
        return {"slow": x.new_ones(*x.shape[:-1], SIZE), "fast": x.new_zeros(*x.shape[:-1], SIZE)}


class NumberedCell(nn.Module):
    """A user's own module that looks at the step's number."""

    hidden_size = SIZE

    def __init__(self) -> None:
        super().__init__()
        self.inward, self.onward, self.drift = nn.Linear(INPUT, SIZE), nn.Linear(SIZE, SIZE), nn.Parameter(torch.ones(SIZE))

    def forward(self, x: Tensor, state: Tensor, n: int) -> Tensor:
        return torch.tanh(self.inward(x) + self.onward(state) + n * self.drift)

    @staticmethod
    def start(x: Tensor) -> Tensor:
        return x.new_zeros(*x.shape[:-1], SIZE)


class Attention(po.Step):
    """Tokens attend to each other, so a neighbour's frozen state matters; padding is not attended to."""

    size = SIZE

    def __init__(self) -> None:
        super().__init__()
        self.inward, self.onward, self.qkv = nn.Linear(INPUT, SIZE), nn.Linear(SIZE, SIZE), nn.Linear(SIZE, 3 * SIZE)

    def initial_state(self, x: dict[str, Tensor]) -> Tensor:
        return x["tokens"].new_zeros(*x["mask"].shape, SIZE)

    def prepare(self, x: dict[str, Tensor], mask: Tensor | None = None) -> dict[str, Tensor | None]:
        return {"inward": self.inward(x["tokens"]), "mask": mask}

    def advance(self, context: dict[str, Tensor], state: Tensor, n: int) -> Tensor:
        q, k, v = self.qkv(state).split(SIZE, -1)
        scores = (q @ k.mT).masked_fill(~context["mask"][:, None], torch.finfo(q.dtype).min)
        return torch.tanh(context["inward"] + self.onward(state) + scores.softmax(-1) @ v)


class Tokens(nn.Module):
    """The encoder of steps that want only the tokens of an input with a mask."""

    def forward(self, x: dict[str, Tensor]) -> Tensor:
        return x["tokens"]


def stack() -> po.Stack:
    return po.Stack([nn.Sequential(nn.Linear(SIZE, SIZE), nn.Tanh()) for _ in range(LIMIT)], size=SIZE)


def modulated(modulation: po.Modulation, **options: Any) -> po.TransformerStep:
    return po.TransformerStep(SIZE, 2, mlp_size=5, modulation=modulation, **options)


STEPS: dict[str, tuple[tuple[bool, ...], Callable[[], nn.Module]]] = {
    "gru": ((FLAT, TOKENS), lambda: po.GRUStep(INPUT, SIZE)),
    "mlp": ((FLAT, TOKENS), lambda: po.MLPStep(INPUT, SIZE, width=5)),
    "lstm-cell": ((FLAT,), lambda: po.CellStep(nn.LSTMCell(INPUT, SIZE))),
    "gru-cell": ((FLAT,), lambda: nn.GRUCell(INPUT, SIZE)),
    "dict-cell": (
        (FLAT, TOKENS),
        lambda: po.CellStep(DictCell(), initial_state=DictCell.start, read=lambda s: s["fast"], size=SIZE),
    ),
    "numbered-cell": ((FLAT, TOKENS), lambda: po.CellStep(NumberedCell(), initial_state=NumberedCell.start)),
    "stack": ((FLAT, TOKENS), stack),
    "attention": ((TOKENS,), Attention),
    "transformer": ((TOKENS,), lambda: po.TransformerStep(SIZE, 2, layers=LIMIT, mlp_size=5)),
    "transformer-frozen": (
        (TOKENS,),
        lambda: po.TransformerStep(SIZE, 2, layers=LIMIT, mlp_size=5, norm="post", frozen_kv=True),
    ),
    "transformer-tied": ((TOKENS,), lambda: po.TransformerStep(SIZE, 2, mlp_size=5)),
    "transformer-signal": ((TOKENS,), lambda: po.TransformerStep(SIZE, 2, mlp_size=5, norm="post", step_signal=LIMIT)),
    "transformer-hyper": ((TOKENS,), lambda: modulated(po.HyperModules(modules=3, embedding=4))),
    "transformer-hyper-frozen": (
        (TOKENS,),
        lambda: modulated(po.HyperModules(modules=3, embedding=4, rank=2), layers=LIMIT, frozen_kv=True),
    ),
    # so few modules of so many numbers that every contraction is the cheapest for some shape
    "transformer-hyper-signal": (
        (TOKENS,),
        lambda: modulated(po.HyperModules(modules=2, embedding=10, out=False), norm="post", step_signal=LIMIT),
    ),
    "transformer-film": ((TOKENS,), lambda: modulated(po.FiLM(hidden=2))),
    "transformer-latents": ((TOKENS,), lambda: modulated(po.Latents(count=3), layers=LIMIT, norm="post")),
    "transformer-recall": ((TOKENS,), lambda: po.TransformerStep(SIZE, 2, mlp_size=5, norm="post", recall=True)),
}
"""Name: the inputs it takes, `[batch, size]` or tokens, and how to build it."""


@dataclass(frozen=True)
class Pair:
    """A halting over a unit, and a step: what a suite runs."""

    halting: str
    unit: str
    step: str

    def __str__(self) -> str:
        return f"{self.halting}-{self.unit}-{self.step}"

    @property
    def inputs(self) -> tuple[bool, ...]:
        """The kinds of input that make sense: only tokens can halt as tokens."""
        return tuple(kind for kind in STEPS[self.step][0] if kind == TOKENS or self.unit != "token")

    @property
    def exits(self) -> bool:
        return build_halting(self).reads_output

    def net(self, seed: int, tokens: bool) -> po.Ponder:
        """The net, with weights drawn from `seed`."""
        torch.manual_seed(seed)
        encoder: nn.Module | None = Tokens() if tokens and self.step != "attention" else None
        if self.step == "stack" or self.step.startswith("transformer"):
            encoder = nn.Sequential(*([encoder] if encoder else []), nn.Linear(INPUT, SIZE))
        head: nn.Module = nn.Linear(SIZE, CLASSES)
        if tokens and self.exits and (self.unit != "token" or self.halting.startswith("sentence")):
            head = po.ReadOut(SIZE, CLASSES, place="mean")
        elif tokens and self.unit == "example" and self.step == "transformer-tied":
            head = po.ReadOut(SIZE, CLASSES, place="query")
        net = po.Ponder(STEPS[self.step][1](), build_halting(self), head=head, max_steps=LIMIT, encoder=encoder).double()
        for parameter in net.parameters():
            nn.init.normal_(parameter, std=0.9)
        return net


def build_halting(pair: Pair) -> po.Halting:
    return HALTINGS[pair.halting][1](pair.unit)


VARIANTS = ("transformer-hyper-frozen", "transformer-hyper-signal", "transformer-film", "transformer-latents")
"""Steps that differ from others in what one block computes: they meet one mechanism of each family."""
FAMILIES = ("fixed", "act", "ponder-sample", "lac-paper", "planned-function", "confidence")
PAIRS = [
    pair
    for name, (units, _) in HALTINGS.items() for unit in units for step in STEPS
    if (pair := Pair(name, unit, step)).inputs and (name in FAMILIES or step not in VARIANTS)
]  # fmt: skip


@contextmanager
def gathering(costs: bool) -> Iterator[None]:
    """Whether gathering examples costs what it costs: if not, halted ones leave at once, however small the network."""
    with patch.multiple(thrift, GATHER=GATHER * costs, BYTE=BYTE * costs):
        yield


@dataclass(frozen=True)
class Batch:
    """Examples, and what a net must be told about them."""

    x: Tree
    mask: Tensor | None = None

    def __len__(self) -> int:
        return len(leaves(self.x)[0])

    def rows(self, index: Any) -> "Batch":
        """Other examples in another order, cut to the longest."""
        mask = None if self.mask is None else self.mask[index]
        longest = slice(None) if mask is None or not mask.any() else slice(int(mask.any(0).nonzero().max()) + 1)
        x = tree_map(lambda t: t[index] if mask is None else t[index][:, longest], self.x)
        return Batch(x, None if mask is None else mask[:, longest])

    def run(self, net: po.Ponder, **options: Any) -> po.Solution:
        return net(self.x, mask=self.mask, **options)


def batch(seed: int, examples: int, tokens: int | None) -> Batch:
    """Random examples: `[examples, INPUT]`, or with a number of tokens of which at least the first is real."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(examples, *(() if tokens is None else (tokens,)), INPUT, generator=generator, dtype=torch.float64)
    if tokens is None:
        return Batch(x)
    lengths = torch.randint(1, tokens + 1, (examples, 1), generator=generator)
    mask = torch.arange(tokens) < lengths
    return Batch({"tokens": x, "mask": mask}, mask)


def padded(of: Batch, extra: int, seed: int, anywhere: bool) -> tuple[Batch, Tensor]:
    """The batch with garbage in its padding and `extra` more of it, and where its old tokens are now `[tokens]`."""
    assert of.mask is not None
    generator = torch.Generator().manual_seed(seed)
    tokens = of.mask.shape[1]
    places = torch.arange(tokens)
    if anywhere:
        places = torch.randperm(tokens + extra, generator=generator)[:tokens].sort().values
    mask = torch.zeros(len(of), tokens + extra, dtype=torch.bool)
    mask[:, places] = of.mask
    x = 30 * torch.randn(len(of), tokens + extra, INPUT, generator=generator, dtype=torch.float64)
    x[:, places] = torch.where(of.mask[..., None], of.x["tokens"], x[:, places])
    return Batch({"tokens": x, "mask": mask}, mask), places


def target(solution: po.Solution, seed: int) -> Tensor:
    """A class for each answer, per example or per token."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(CLASSES, solution.output.shape[:-1], generator=generator)


class Script(nn.Module):
    """A step whose states are written down: the input holds them `[batch, steps + 1, ...]`, h_0 first."""

    def forward(self, x: Tensor, state: Tensor, n: int) -> Tensor:
        return x[:, n]


def scripted(halting: po.Halting, states: Tensor, **options: Any) -> po.Ponder:
    """A net that goes through `states`, given as its input; learned mechanisms read the sum of the last axis as a logit."""
    step = po.CellStep(Script(), initial_state=lambda x: x[:, 0], size=states.shape[-1])
    net = po.Ponder(step, halting, max_steps=states.shape[1] - 1, **options).double()
    for part in halting.modules():
        if isinstance(part, nn.Linear):
            nn.init.ones_(part.weight)
            nn.init.zeros_(part.bias)
    return net


def states_of(halt: Tensor) -> Tensor:
    """The states `[batch, steps + 1, 1]` whose halting values are `halt` `[steps, batch]`."""
    return torch.cat([torch.zeros_like(halt[:1]), halt.logit()]).T[..., None]
