"""T5's decoder in parts."""

from typing import Any

from torch import Tensor, nn


class TokenHead(nn.Module):
    """From the state after any layer of a T5 decoder to the next token's logits: the model's own last norm and head."""

    def __init__(self, model: Any):
        super().__init__()
        self.norm, self.vocabulary = model.decoder.final_layer_norm, model.lm_head
        self.scale = model.config.d_model**-0.5 if model.config.scale_decoder_outputs else 1.0

    def forward(self, state: Tensor) -> Tensor:
        return self.vocabulary(self.norm(state) * self.scale)
