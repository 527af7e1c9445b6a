"""Transformer layers as a step: tokens attend to each other, and those that have halted are only attended to."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from ponderosa.host import host
from ponderosa.steps import block_native
from ponderosa.steps.attention import attend, attend_packed
from ponderosa.steps.base import Step
from ponderosa.steps.block import Block, Layer, Planned, shapes
from ponderosa.steps.modules.base import Modulation
from ponderosa.steps.modules.plan import HyperNetwork
from ponderosa.steps.tokens import Tokens, everyone
from ponderosa.tree import Tree


class TokenStep(Step):
    """Any layers in three parts (`Layer`) as a step: state `[batch, token, size]`, the input is h_0.

    Args:
        layers: one for each step, or a single one that every step repeats.
        frozen_kv: whether a token that has halted keeps the keys and values of its last layer; if not, each
            further layer computes them from its frozen state. It costs nothing any more, but the others see it differently:
            train with the same choice.
        signal: an embedding of the step's number that is added to what a repeated layer sees, `[steps, size]`.
        hyper: generates weights for the layers, which then take its plan for the step's examples as their last argument.
        recall: whether the input is added to what the layer sees at every step, and h_0 is zero; if not, the input is h_0.
            What is seen again cannot be forgotten, however many steps there are.
    """

    def __init__(
        self, layers: nn.Module | Sequence[nn.Module], *, size: int, frozen_kv: bool = False,
        signal: nn.Embedding | None = None, hyper: HyperNetwork | None = None, recall: bool = False,
    ):  # fmt: skip
        super().__init__()
        self.tied = isinstance(layers, nn.Module) and not isinstance(layers, nn.ModuleList)
        self.layers = nn.ModuleList([layers] if self.tied else layers)  # type: ignore[list-item, arg-type]
        self.size, self.frozen_kv, self.signal, self.hyper, self.recall = size, frozen_kv, signal, hyper, recall
        self.max_steps = signal.num_embeddings if signal else None if self.tied else len(self.layers)

    def layer(self, n: int | Tensor) -> Layer:
        return self.layers[0 if self.tied else int(n) - 1]  # type: ignore[return-value]

    def initial_state(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x) if self.recall else x

    def prepare(self, x: Tree, mask: Tensor | None = None) -> Tree:
        return {"mask": mask, "input": x if self.recall else None}

    def advance(self, context: Tree, state: Tensor, n: int | Tensor, active: Tensor | None = None) -> Tensor:
        """All tokens, padded. With frozen keys and values `active` `[batch, token]` must say who has not halted."""
        layer, h = self.layer(n), self.seen(state, n, context["input"] if self.recall else None)
        if context["mask"] is None and not self.frozen_kv and block_native.fits(layer, h):
            return block_native.advance_through(layer, h, 1).squeeze(0)
        if self.hyper is not None:
            layer = Planned(layer, self.hyper.plan(h, context["mask"]))
        keys_values = self._all_keys_values(context, layer, h, active)
        return layer.finish(h, attend(layer.queries(h), keys_values, layer.heads, context["mask"]))

    def advance_through(self, context: Tree, state: Tensor, first: int, steps: int) -> Tensor:
        layer = self.layer(first)
        if self._repeats_a_layer() and context["mask"] is None and block_native.fits(layer, state):
            return block_native.advance_through(layer, state, steps)
        return super().advance_through(context, state, first, steps)

    def _repeats_a_layer(self) -> bool:
        """Whether a step is one layer on the state and nothing else, not even in a subclass."""
        parts = "advance", "seen", "layer"
        own = any(getattr(type(self), name) is not getattr(TokenStep, name) or name in vars(self) for name in parts)
        return self.repeats_exactly and not (own or self.recall or self.frozen_kv)

    def _all_keys_values(self, context: Tree, layer: Layer, h: Tensor, active: Tensor | None) -> Tensor:
        """Those of every token, padded: of a halted one its last, if they are frozen."""
        keys_values = layer.keys_values(h)
        if self.frozen_kv:
            if active is not None and "kv" in context:
                keys_values = torch.where(active[..., None], keys_values, context["kv"])
            context["kv"] = keys_values
        return keys_values

    def advance_packed(self, context: Tree, state: Tensor, n: int | Tensor, active: Tokens) -> Tensor:
        """Only the `active` tokens, packed; the others keep their state. Equals `advance`, frozen."""
        h, shown = self.seen(state, n, context["input"] if self.recall else None), _shown(context, active)
        asking, showing = self._planned(self.layer(n), h, context["mask"], active, shown)
        seen, keys_values = active.pack(h), self._keys_values(context, showing, h, active, shown)
        attended = attend_packed(asking.queries(seen), keys_values, asking.heads, active.counts, shown.counts)
        return active.put(state, asking.finish(seen, attended))

    def _planned(
        self, layer: Layer, h: Tensor, mask: Tensor | None, active: Tokens, shown: Tokens
    ) -> tuple[Layer, Layer]:  # fmt: skip
        """The layer for the packed rows of active tokens, and for those whose keys and values are computed."""
        if self.hyper is None:
            return layer, layer
        going = torch.tensor([i for i, count in enumerate(active.counts) if count], device=h.device)
        plan = self.hyper.plan(h[going], None if mask is None else mask[going])
        computed = active if self.frozen_kv else shown
        asking, showing = (plan.packed([count for count in rows.counts if count]) for rows in (active, computed))
        return Planned(layer, asking), Planned(layer, showing)

    def _keys_values(self, context: Tree, layer: Layer, h: Tensor, active: Tokens, shown: Tokens) -> Tensor:
        """The packed keys and values of the tokens `shown` to others: those that are known already are not computed again."""
        if not (self.frozen_kv or self.repeats_exactly):
            return layer.keys_values(shown.pack(h))
        # a repeated layer shows the same of a token until its state changes; a frozen one for ever what it showed last
        known, kv = context.get("known"), context.get("kv")
        unknown = active if self.frozen_kv else shown if known is None else Tokens(shown.chosen & ~known)
        computed = layer.keys_values(unknown.pack(h))
        if kv is None:
            kv = computed.new_zeros(*active.chosen.shape, computed.shape[-1])
        kv = unknown.put(kv, computed, in_place=not torch.is_grad_enabled())
        context |= {"known": shown.chosen & ~active.chosen, "kv": kv}
        return shown.pack(kv)

    @property
    def repeats_exactly(self) -> bool:
        """Whether keys and values depend on the token's state alone, not on the step or on other tokens."""
        return self.tied and self.signal is None and self.hyper is None

    def seen(self, state: Tensor, n: int | Tensor, x: Tensor | None) -> Tensor:
        """What the layer sees: the state, with the input `x` where it is seen again, and the step's signal if there is one."""
        if x is not None:
            state = state + x
        if self.signal is None:
            return state
        number = torch.as_tensor(n, device=state.device) - 1
        return state + self.signal(number).view(*number.shape, *(1,) * number.ndim, self.signal.embedding_dim)


class TransformerStep(TokenStep):
    """A transformer encoder: `layers` of its own for each step, or one that is repeated (a universal transformer).

    >>> import ponderosa as po
    >>> net = po.Ponder(po.TransformerStep(16, 4, layers=6), po.LAC(alpha=0.8, unit="token")).eval()
    >>> net(torch.randn(2, 5, 16)).steps.shape
    torch.Size([2, 5])

    Args:
        size: of a token's state; the input has it already (use `Ponder(encoder=...)` for embeddings).
        heads: of the attention.
        layers: how many; None for a single one that every step repeats.
        mlp_size: of the feed-forward network's hidden layer, by default four times the size.
        norm: "pre" or "post".
        dropout: on the output of each part, in training.
        frozen_kv: whether a halted token keeps the keys and values of its last layer (see `TokenStep`).
        step_signal: for a repeated layer, up to how many steps each has a learned signal of its own; 0 for none.
        modulation: `FiLM`, `Latents`, `HyperModules`, or your own: what makes a repeated layer another at each step.
        recall: whether every step sees the input again (see `TokenStep`).
    """

    def __init__(
        self, size: int, heads: int, *, layers: int | None = None, mlp_size: int | None = None,
        norm: Literal["pre", "post"] = "pre", dropout: float = 0.0, frozen_kv: bool = False, step_signal: int = 0,
        modulation: Modulation | None = None, recall: bool = False,
    ):  # fmt: skip
        if layers is not None and (layers < 1 or step_signal):
            raise ValueError(
                f"layers={layers}, step_signal={step_signal}: one layer at least, and a signal only for a repeated one"
            )
        modulation = modulation or Modulation()
        blocks = [
            Block(size, heads, mlp_size=mlp_size, norm=norm, dropout=dropout, modulation=modulation, between=between)
            for between in modulation.between(size, heads, layers or 1)
        ]
        signal = nn.Embedding(step_signal, size) if step_signal else None
        hyper = modulation.network(shapes(size, mlp_size or 4 * size))
        super().__init__(
            blocks if layers else blocks[0], size=size, frozen_kv=frozen_kv, signal=signal, hyper=hyper, recall=recall
        )


def _shown(context: Tree, active: Tokens) -> Tokens:
    """The tokens that some active one attends to: the real ones of examples that have active tokens."""
    if context["mask"] is None and all(active.counts):
        return everyone(*active.chosen.shape)
    asking = active.chosen.any(1, keepdims=True)
    return Tokens(np.broadcast_to(asking, active.chosen.shape) if context["mask"] is None else host(context["mask"]) & asking)
