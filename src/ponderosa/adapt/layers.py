"""The layers of pretrained encoders in the three parts that an engine runs on just the tokens that need them."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ponderosa.host import tensor
from ponderosa.steps.attention import attend
from ponderosa.steps.block import Layer
from ponderosa.steps.tokens import Tokens
from ponderosa.steps.transformer import TokenStep
from ponderosa.tree import Tree


class Parts(nn.Module):
    """A pretrained layer, and the number of its heads."""

    def __init__(self, layer: nn.Module, heads: int):
        super().__init__()
        self.layer: Any = layer
        self.heads = heads


class BertParts(Parts):
    """BERT, RoBERTa and their kin: the norm comes after each residual sum."""

    def queries(self, h: Tensor) -> Tensor:
        return self.layer.attention.self.query(h)

    def keys_values(self, h: Tensor) -> Tensor:
        attention = self.layer.attention.self
        return torch.cat([attention.key(h), attention.value(h)], -1)

    def finish(self, h: Tensor, attended: Tensor) -> Tensor:
        h = self.layer.attention.output(attended, h)
        return self.layer.output(self.layer.intermediate(h), h)


class DistilBertParts(Parts):
    """DistilBERT: as BERT, under other names."""

    def queries(self, h: Tensor) -> Tensor:
        return self.layer.attention.q_lin(h)

    def keys_values(self, h: Tensor) -> Tensor:
        attention = self.layer.attention
        return torch.cat([attention.k_lin(h), attention.v_lin(h)], -1)

    def finish(self, h: Tensor, attended: Tensor) -> Tensor:
        h = self.layer.sa_layer_norm(self.layer.attention.out_lin(attended) + h)
        return self.layer.output_layer_norm(self.layer.ffn.ff_chunk(h) + h)


class MPNetParts(Parts):
    """MPNet: as BERT, under other names; its attention has a bias (`BiasedStep`)."""

    def queries(self, h: Tensor) -> Tensor:
        return self.layer.attention.attn.q(h)

    def keys_values(self, h: Tensor) -> Tensor:
        attention = self.layer.attention.attn
        return torch.cat([attention.k(h), attention.v(h)], -1)

    def finish(self, h: Tensor, attended: Tensor) -> Tensor:
        attention = self.layer.attention
        h = attention.LayerNorm(attention.dropout(attention.attn.o(attended)) + h)
        return self.layer.output(self.layer.intermediate(h), h)


class ViTParts(Parts):
    """ViT and DeiT: the norm comes before each part."""

    def queries(self, h: Tensor) -> Tensor:
        return self.layer.attention.q_proj(self.layer.layernorm_before(h))

    def keys_values(self, h: Tensor) -> Tensor:
        attention, h = self.layer.attention, self.layer.layernorm_before(h)
        return torch.cat([attention.k_proj(h), attention.v_proj(h)], -1)

    def finish(self, h: Tensor, attended: Tensor) -> Tensor:
        layer = self.layer
        h = h + layer.dropout(layer.attention.o_proj(attended))
        return h + layer.dropout(layer.mlp(layer.layernorm_after(h)))


class BiasedStep(TokenStep):
    """Layers whose attention adds a bias for the distance of two tokens (MPNet).

    Halted tokens ask nothing and are not carried on, as in every `TokenStep`; only the attention itself is computed padded.

    Args:
        layers: one for each step.
        bias: from a state `[batch, token, size]` to the biases `[batch, head, token, token]`.
        size: of a token's state.
        frozen_kv: see `TokenStep`.
    """

    def __init__(self, layers: Sequence[nn.Module], bias: nn.Module, *, size: int, frozen_kv: bool = False):
        super().__init__(layers, size=size, frozen_kv=frozen_kv)
        self.bias = bias

    def advance(self, context: Tree, state: Tensor, n: int | Tensor, active: Tensor | None = None) -> Tensor:
        layer = self.layer(n)
        return layer.finish(state, self._attend(context, state, layer.queries(state), layer, active))

    def advance_packed(self, context: Tree, state: Tensor, n: int | Tensor, active: Tokens) -> Tensor:
        layer, seen = self.layer(n), active.pack(state)
        asked = layer.queries(seen)
        queries = active.put(asked.new_zeros(*state.shape[:2], asked.shape[-1]), asked)
        attended = active.pack(self._attend(context, state, queries, layer, tensor(active.chosen, state)))
        return active.put(state, layer.finish(seen, attended))

    def _attend(self, context: Tree, state: Tensor, queries: Tensor, layer: Layer, active: Tensor | None) -> Tensor:
        keys_values = self._all_keys_values(context, layer, state, active)
        return attend(queries, keys_values, layer.heads, context["mask"], self.bias(state))
