"""What each part of a network costs, counted once on a row or two: the operations of any solution follow in closed form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor, nn

from ponderosa.engine.head import answer
from ponderosa.engine.packing import real_tokens
from ponderosa.halting.base import Memory
from ponderosa.measure.operations import count
from ponderosa.ponder import Ponder
from ponderosa.steps.base import Step
from ponderosa.steps.block import Planned
from ponderosa.steps.modules.base import COMPONENTS
from ponderosa.steps.modules.contraction import Counts, Mixture, Shape
from ponderosa.steps.modules.generator import Generator
from ponderosa.steps.modules.plan import HyperNetwork, Plan
from ponderosa.steps.transformer import TokenStep
from ponderosa.tree import Tree, tree_map

P = TypeVar("P")


@dataclass(frozen=True)
class Price:
    """The operations of a call: some whatever the rows (a hyper-network's weights), and more for each row."""

    fixed: int = 0
    each: int = 0

    def of(self, rows: int | Tensor) -> int:
        return self.fixed + self.each * int(rows) if rows else 0


def price(call: Callable[..., object], *inputs: Tree) -> Price:
    """The price of a call whose inputs have rows like the first of `inputs`."""
    one, two = (count(call, *copies(inputs, rows)) for rows in (1, 2))
    return Price(2 * one - two, two - one)


def copies(tree: Tree, rows: int) -> Tree:
    """The first row of every tensor, as often as asked."""
    return tree_map(lambda leaf: leaf[[0] * rows] if isinstance(leaf, Tensor) and leaf.ndim else leaf, tree)


@dataclass(frozen=True)
class Moment:
    """Who takes part in one step."""

    going: Tensor
    """True for the examples that have not ended `[batch]`."""
    active: Tensor
    """True for the tokens that change in this step `[batch, token]`."""
    before: Tensor
    """True for those that changed in the step before `[batch, token]`; before the first step, the real ones."""
    real: Tensor
    """True for what is not padding `[batch, token]`."""


@dataclass(frozen=True)
class WholePrice:
    """Of a step that computes all tokens of an example, if any."""

    advance: Price

    def of(self, now: Moment) -> int:
        return self.advance.of(now.going.sum())


@dataclass(frozen=True)
class RowPrice:
    """Of a step whose tokens never see each other."""

    advance: Price

    def of(self, now: Moment) -> int:
        return self.advance.of(now.active.sum())


@dataclass(frozen=True)
class LayerPrice:
    """Of a transformer layer: active tokens ask and go on, all real tokens of their examples show keys and values."""

    queries: Price
    keys_values: Price
    finish: Price
    pair: int
    """One query and one key: the score, and the value it weighs."""
    frozen_kv: bool
    repeats: bool
    hyper: HyperNetwork | None = None
    routers: Price = Price()
    """For each example that goes on."""

    def of(self, now: Moment) -> int:
        shown = now.real & now.active.any(1, keepdim=True)
        # a repeated layer keeps what it knows of tokens that did not change
        fresh = now.active if self.frozen_kv else now.before & shown if self.repeats else shown
        active, pairs = now.active.sum(), now.active.sum(1) @ shown.sum(1)
        rows = self.queries.of(active) + self.keys_values.of(fresh.sum()) + self.finish.of(active)
        return rows + self.pair * int(pairs) + self._generated(int(now.active.any(1).sum()), int(active), int(fresh.sum()))

    def _generated(self, examples: int, active: int, fresh: int) -> int:
        """The weights of a block with hyper-modules, and its dense layers: not linear, since the cheapest way is chosen."""
        if self.hyper is None or not examples:
            return 0
        rows = dict.fromkeys(COMPONENTS, active) | {"key_value": fresh}
        return self.routers.of(examples) + self.hyper.operations(examples, rows)


StepPrice = WholePrice | RowPrice | LayerPrice


class Prices:
    """The prices of a network's parts in evaluation, at up to `limit` steps, for inputs like the first example of `x`.

    `given` is what else `Ponder.begin` takes: state, mask, key, depth.
    """

    def __init__(self, net: Ponder, limit: int, x: Tree, given: dict[str, Tree]):
        self.net = net
        self.start = price(self._start, x, given)
        context, state, memory = self._start(*copies((x, given), 1))
        read = net.step.read(state)
        mask = copies(given["mask"], 1)
        packs = net.halting.unit == "token" or real_tokens(net.step, read, mask) is not None
        numbers = range(1, limit + 1)
        self.steps = [_step_price(net.step, context, state, n, packs) for n in (numbers[:1] if net.step.tied else numbers)]
        self.heads = [price(partial(_answer, net.head, n), read, mask) for n in (numbers if self._own_heads else numbers[:1])]
        output = answer(net.head, read, 1, mask) if net.halting.reads_output else None
        self.update = price(partial(net.halting.update, 1), read, output, memory)

    def _start(self, x: Tree, given: dict[str, Tree]) -> tuple[Tree, Tree, Memory]:
        """All that is done once: the encoder, h_0, what the step prepares, and the halting (a router's plan)."""
        net = self.net
        encoded, state, units = net.begin(x, **given)
        return net.step.prepare(encoded, units.mask), state, net.halting.begin(net.step.read(state), units)

    @property
    def _own_heads(self) -> bool:
        """Whether each step has a head of its own."""
        return isinstance(self.net.head, nn.ModuleList)

    def total(self, steps: Tensor, real: Tensor) -> int:
        """The operations of a batch whose units take `steps` `[batch]` or `[batch, token]`; `real` `[batch, token]` is True
        for what is not padding."""
        depths = (steps if steps.ndim == 1 else steps.amax(1)).clamp_min(1)  # without a real token: out after the first step
        total, before = self.start.of(len(steps)), real
        for n in range(1, int(depths.max()) + 1):
            going = depths >= n
            active = going[:, None] & real if steps.ndim == 1 else steps >= n
            total += _of_step(self.steps, n).of(Moment(going, active, before, real)) + self.update.of(going.sum())
            if self.net.halting.reads_output:
                total += _of_step(self.heads, n).of(going.sum())
            before = active
        return total + self._last_answers(depths)

    def _last_answers(self, depths: Tensor) -> int:
        """The head's, once: an exit has given its answer already; heads of their own answer for whom they ended."""
        halting = self.net.halting
        if halting.reads_output and halting.trains_every_step and halting.weighs_answers:
            return 0
        if not self._own_heads:
            return self.heads[0].of(len(depths))
        ended = zip(*depths.unique(return_counts=True), strict=True)
        return sum(self.heads[int(n) - 1].of(rows) for n, rows in ended)


def _of_step(prices: Sequence[P], n: int) -> P:
    """The price at step `n`; a single one is that of all steps."""
    return prices[n - 1 if len(prices) > 1 else 0]


def _answer(head: nn.Module | None, n: int, state: Tensor, mask: Tensor | None) -> Tensor:
    return answer(head, state, n, mask)


def _step_price(step: Step, context: Tree, state: Tree, n: int, packs: bool) -> StepPrice:
    """The price of step `n`; `packs` says whether the engine leaves out tokens."""
    if isinstance(step, TokenStep):
        return _layer_price(step, n, state.flatten(0, 1))
    if step.tokenwise and packs:
        return RowPrice(price(partial(_advance, step, n), *tree_map(lambda leaf: leaf.flatten(0, 1), (context, state))))
    return WholePrice(price(partial(_advance, step, n), context, state))


def _advance(step: Step, n: int, context: Tree, state: Tree) -> Tree:
    return step.advance(context, state, n)


def _layer_price(step: TokenStep, n: int, tokens: Tensor) -> LayerPrice:
    layer, routers, hyper = step.layer(n), Price(), step.hyper
    if hyper is not None:
        layer = Planned(layer, _free(hyper))
        routers = price(lambda h: hyper.plan(h, None), tokens[:, None])
    queries = layer.queries(tokens)
    return LayerPrice(
        price(layer.queries, tokens), price(layer.keys_values, tokens), price(layer.finish, tokens, queries),
        pair=4 * queries.shape[-1], frozen_kv=step.frozen_kv, repeats=step.repeats_exactly, hyper=hyper, routers=routers,
    )  # fmt: skip


def _free(hyper: HyperNetwork) -> Plan:
    """A plan whose layers cost nothing: what is counted is the rest of the block."""
    none = Mixture(*[torch.empty(0)] * 3)
    return Plan({slot: (_Free(generator.shape), none) for slot, generator in hyper.generators.items()})


class _Free(Generator):
    """Stands in the place of a dense layer and does nothing."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = shape

    def forward(self, x: Tensor, mixture: Mixture, counts: Counts) -> Tensor:
        return x.new_zeros(*x.shape[:-1], self.shape.outputs)

    def operations(self, examples: int, rows: int) -> int:
        return 0
