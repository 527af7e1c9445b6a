"""Transformer layers as a step: tokens attend to each other, and those that have halted are only attended to."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from ponderosa.steps.attention import attend, attend_packed
from ponderosa.steps.base import Step
from ponderosa.steps.block import Block, Layer
from ponderosa.steps.tokens import Tokens
from ponderosa.tree import Tree


class TokenStep(Step):
    """Any layers in three parts (`Layer`) as a step: state `[batch, token, size]`, the input is h_0.

    Args:
        layers: one for each step, or a single one that every step repeats.
        frozen_kv: whether a token that has halted keeps the keys and values of its last layer; if not, each
            further layer computes them from its frozen state. It costs nothing any more, but the others see it differently:
            train with the same choice.
        signal: an embedding of the step's number that is added to what a repeated layer sees, `[steps, size]`.
    """

    def __init__(
        self, layers: nn.Module | Sequence[nn.Module], *, size: int, frozen_kv: bool = False, signal: nn.Embedding | None = None
    ):  # fmt: skip
        super().__init__()
        self.tied = isinstance(layers, nn.Module) and not isinstance(layers, nn.ModuleList)
        self.layers = nn.ModuleList([layers] if self.tied else layers)  # type: ignore[list-item, arg-type]
        self.size, self.frozen_kv, self.signal = size, frozen_kv, signal
        self.max_steps = signal.num_embeddings if signal else None if self.tied else len(self.layers)

    def layer(self, n: int | Tensor) -> Layer:
        return self.layers[0 if self.tied else int(n) - 1]  # type: ignore[return-value]

    def initial_state(self, x: Tensor) -> Tensor:
        return x

    def prepare(self, x: Tree, mask: Tensor | None = None) -> Tree:
        real = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if mask is None else mask
        return {"mask": mask, "real": real, "changed": real}

    def advance(self, context: Tree, state: Tensor, n: int | Tensor, active: Tensor | None = None) -> Tensor:
        """All tokens, padded. With frozen keys and values `active` `[batch, token]` must say who has not halted."""
        layer, h = self.layer(n), self._signalled(state, n)
        keys_values = layer.keys_values(h)
        if self.frozen_kv:
            if active is not None and "kv" in context:
                keys_values = torch.where(active[..., None], keys_values, context["kv"])
            context["kv"] = keys_values
        return layer.finish(h, attend(layer.queries(h), keys_values, layer.heads, context["mask"]))

    def advance_packed(self, context: Tree, state: Tensor, n: int | Tensor, active: Tokens) -> Tensor:
        """Only the `active` tokens, packed; the others keep their state. Equals `advance`, frozen."""
        layer, h = self.layer(n), self._signalled(state, n)
        seen = active.pack(h)
        keys_values, key_counts = self._keys_values(context, layer, h, active)
        attended = attend_packed(layer.queries(seen), keys_values, layer.heads, active.counts, key_counts)
        return active.put(state, layer.finish(seen, attended))

    def _keys_values(self, context: Tree, layer: Layer, h: Tensor, active: Tokens) -> tuple[Tensor, list[int]]:
        """The packed keys and values of the tokens that active ones attend to, and how many each example has of them."""
        shown = context["shown"] = _shown(context, active)
        if not (self.frozen_kv or self.repeats_exactly):
            return layer.keys_values(shown.pack(h)), shown.counts
        # a repeated layer shows the same of a token until its state changes; a frozen one for ever what it showed last
        changed = active if self.frozen_kv else Tokens.of(context["changed"], context.get("active"))
        computed = layer.keys_values(changed.pack(h))
        kv = context.get("kv")
        if kv is None:
            kv = computed.new_zeros(*active.chosen.shape, computed.shape[-1])
        kv = changed.put(kv, computed, in_place=not torch.is_grad_enabled())
        context |= {"changed": active.chosen, "active": active, "kv": kv}
        return shown.pack(kv), shown.counts

    @property
    def repeats_exactly(self) -> bool:
        """Whether keys and values depend on the state alone, not on the step."""
        return self.tied and self.signal is None

    def _signalled(self, state: Tensor, n: int | Tensor) -> Tensor:
        if self.signal is None:
            return state
        number = torch.as_tensor(n, device=state.device) - 1
        return state + self.signal(number).view(-1, 1, self.signal.embedding_dim)


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
    """

    def __init__(
        self, size: int, heads: int, *, layers: int | None = None, mlp_size: int | None = None,
        norm: Literal["pre", "post"] = "pre", dropout: float = 0.0, frozen_kv: bool = False, step_signal: int = 0,
    ):  # fmt: skip
        if layers is not None and (layers < 1 or step_signal):
            raise ValueError(
                f"layers={layers}, step_signal={step_signal}: one layer at least, and a signal only for a repeated one"
            )
        blocks = [Block(size, heads, mlp_size=mlp_size, norm=norm, dropout=dropout) for _ in range(layers or 1)]
        signal = nn.Embedding(step_signal, size) if step_signal else None
        super().__init__(blocks if layers else blocks[0], size=size, frozen_kv=frozen_kv, signal=signal)


def _shown(context: Tree, active: Tokens) -> Tokens:
    """The tokens that some active one attends to: the real ones of examples that have active tokens."""
    real = context["real"]
    if not all(active.counts):
        real = real & (torch.tensor(active.counts, device=real.device) > 0)[:, None]
    return Tokens.of(real, context.get("shown"))
