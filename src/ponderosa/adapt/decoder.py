"""A T5 decoder whose tokens may leave it early (CALM, Schuster et al., 2022): step n is layer n, for the token each example
is at. The state with which a token leaves gives the keys and values of the layers above, so later tokens can attend to it."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ponderosa.steps.base import Step


class TokenHead(nn.Module):
    """From the state after any layer of a T5 decoder to the next token's logits: the model's own last norm and head."""

    def __init__(self, model: Any):
        super().__init__()
        if getattr(model.config, "model_type", None) not in ("t5", "mt5"):
            raise ValueError(f"{type(model).__name__} is not a T5: exits know the layers of T5 and mT5 only")
        self.norm, self.vocabulary = model.decoder.final_layer_norm, model.lm_head
        self.scale = model.config.d_model**-0.5 if model.config.scale_decoder_outputs else 1.0

    def forward(self, state: Tensor) -> Tensor:
        return self.vocabulary(self.norm(state) * self.scale)


class Memory:
    """The keys and values of one attention `[2, example, head, token, size]`, and which examples have them."""

    def __init__(self, attention: Any, examples: int, tokens: int, like: Tensor):
        self.attention = attention
        shape = 2, examples, attention.n_heads, tokens, attention.key_value_proj_dim
        self.kept = like.new_zeros(shape)
        self.known = torch.zeros(examples, dtype=torch.bool, device=like.device)

    def put(self, rows: Tensor, first: int, states: Tensor) -> None:
        """Keep what the states `[row, token, size]` have to offer, as the tokens from `first` on."""
        both = torch.stack([self.attention.k(states), self.attention.v(states)])
        heads = both.unflatten(-1, self.kept.shape[2::2]).transpose(2, 3)
        self.kept[:, rows, :, first : first + states.shape[1]] = heads
        self.known[rows] = True

    def attend(self, rows: Tensor, state: Tensor, tokens: int, bias: Tensor | None) -> Tensor:
        """What the states `[row, size]` find in the first tokens of their own examples `[row, size]`."""
        queries = self.attention.q(state).unflatten(-1, (self.kept.shape[2], 1, -1))
        shown = self.kept[:, :, :, :tokens]
        keys, values = shown if len(rows) == shown.shape[1] else shown.index_select(1, rows)
        found = F.scaled_dot_product_attention(queries, keys, values, attn_mask=bias, scale=1.0)  # T5 does not scale
        return self.attention.o(found.flatten(1))


class DecoderLayers(Step):
    """The layers of a T5 decoder for one token of each example. The input names the examples, by their row `[batch]`."""

    tied = False

    def __init__(self, decoder: Any):
        super().__init__()
        self.blocks = decoder.block
        self.depth = self.max_steps = len(self.blocks)
        self.size = decoder.config.d_model
        self.place = 0
        """Of the token, from 0."""

    def read_source(self, encoded: Tensor, mask: Tensor | None, longest: int) -> None:
        """Begin with the encoder's states `[example, token, size]`, to write at most `longest` tokens."""
        examples, tokens = encoded.shape[:2]
        self.encoded, self.place = encoded, 0
        self.own = [Memory(block.layer[0].SelfAttention, examples, longest, encoded) for block in self.blocks]
        self.across = [Memory(block.layer[1].EncDecAttention, examples, tokens, encoded) for block in self.blocks]
        self.mask = None if mask is None else encoded.new_zeros(mask.shape).masked_fill(~mask, -torch.inf)[:, None, None]
        # the first layer's bias for distances is that of all layers
        self.bias = self.own[0].attention.compute_bias(longest, longest)

    def initial_state(self, x: Tensor) -> Tensor:
        raise ValueError("a decoder starts from the last token's embedding: give it as the state")

    def advance(self, context: Tensor, state: Tensor, n: int) -> Tensor:
        """Layer `n` on the states `[row, size]` of the examples that `context` names."""
        rows, here = context, self.place
        own, across, forward = self.blocks[n - 1].layer
        normed = own.layer_norm(state)
        self.own[n - 1].put(rows, here, normed[:, None])
        state = state + self.own[n - 1].attend(rows, normed, here + 1, self.bias[:, :, here : here + 1, : here + 1])
        missing = rows[~self.across[n - 1].known[rows]]
        if len(missing):  # what no token of an example asks of the source is not computed
            self.across[n - 1].put(missing, 0, self.encoded[missing])
        bias = None if self.mask is None else self.mask[rows]
        state = state + self.across[n - 1].attend(rows, across.layer_norm(state), self.encoded.shape[1], bias)
        return forward(state)

    def carry(self, rows: Tensor, state: Tensor, steps: Tensor) -> None:
        """End the token: the layers that an example did not reach take the state with which it left."""
        for n in range(2, self.depth + 1):
            left = (steps < n).nonzero()[:, 0]
            if len(left):
                self.own[n - 1].put(rows[left], self.place, self.blocks[n - 1].layer[0].layer_norm(state[left])[:, None])
        self.place += 1
