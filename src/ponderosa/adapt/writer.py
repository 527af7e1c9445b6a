"""Adaptive decoding: greedy answers of a T5 in which every token goes as deep as it has to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ponderosa.adapt.decoder import DecoderLayers, TokenHead
from ponderosa.engine import compact
from ponderosa.halting.base import Units
from ponderosa.halting.exits import ConfidenceExit
from ponderosa.halting.fixed import Fixed


@dataclass
class Draft:
    """What was written: tokens `[batch, token]` (padding behind the end), and the layers each took (0 for padding)."""

    ids: Tensor
    depths: Tensor

    @property
    def mean_depth(self) -> float:
        return float(self.depths.sum() / (self.depths > 0).sum().clamp_min(1))


class AdaptiveWriter:
    """Writes with a T5: a token leaves the decoder after the first layer whose likeliest next token has at least the
    threshold's probability, examples leave after their last token. At threshold 1 every token takes every layer.

    Args:
        model: a T5ForConditionalGeneration, best one whose layers all learned to answer (`ponderosa finetune --exits true`).
        threshold: above 0; from 1 on no token leaves early, however sure a layer is.
        longest: the most tokens to write.
    """

    def __init__(self, model: Any, threshold: float = 1.0, *, longest: int = 32):
        if not threshold > 0:
            raise ValueError(f"threshold={threshold}: a probability above 0 is needed; 1 decodes at full depth")
        if longest < 1:
            raise ValueError(f"longest={longest}: an answer has at least one token")
        self.model, self.longest = model.eval(), longest
        self.head, self.layers = TokenHead(model), DecoderLayers(model.decoder)
        # a probability may round to 1: full depth is no threshold's matter
        self.halting = ConfidenceExit(threshold=threshold) if threshold < 1 else Fixed()

    @torch.no_grad()
    def write(self, x: Tensor, mask: Tensor | None = None) -> Draft:
        """Answer questions `[batch, token]`; True in the mask for what is not padding."""
        if not len(x):
            raise ValueError("there are no questions in this batch: skip it")
        encoded = self.model.encoder(input_ids=x, attention_mask=None if mask is None else mask.long()).last_hidden_state
        self.layers.read_source(encoded, None if mask is None else mask.bool(), self.longest)
        config, embedding = self.model.config, self.model.decoder.embed_tokens
        ids = x.new_full((len(x), self.longest), config.pad_token_id)
        depths = torch.zeros_like(ids)
        rows = torch.arange(len(x), device=x.device)
        last = x.new_full((len(x),), config.decoder_start_token_id)
        for place in range(self.longest):
            state = embedding(last)
            solution = compact(self.layers, self.halting, self.head, rows, state, Units(rows.shape), self.layers.depth)
            self.layers.carry(rows, solution.state, solution.steps)
            last = solution.output.argmax(-1)
            ids[rows, place], depths[rows, place] = last, solution.steps
            going = last != config.eos_token_id
            rows, last = rows[going], last[going]
            if not len(rows):
                break
        return Draft(ids[:, : place + 1], depths[:, : place + 1])
