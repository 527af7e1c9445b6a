"""Small encoder-decoders with random weights that say different things to different questions."""

from typing import Any

import torch
from torch import Tensor, nn

LONGEST = 12
SEEDS = {"relu": 5, "gated-gelu": 0, "untied": 5}
"""With these some answers end, and no two are alike in most."""


def t5(form: str = "relu") -> Any:
    """A T5 of three layers in float64; "gated-gelu" and "untied" are its later kin."""
    from transformers import T5Config, T5ForConditionalGeneration

    seed = SEEDS[form]
    torch.manual_seed(seed)
    config = T5Config(
        vocab_size=20, d_model=16, d_kv=4, d_ff=32, num_layers=1, num_decoder_layers=3, num_heads=4, dropout_rate=0.0,
        feed_forward_proj="relu" if form == "untied" else form, tie_word_embeddings=form != "untied", pad_token_id=0,
        eos_token_id=1,
    )  # fmt: skip
    config.decoder_start_token_id = 0
    model = T5ForConditionalGeneration(config).double().eval()
    # untrained, a token is its own likeliest successor: let it be another's
    model.lm_head.weight = nn.Parameter(model.lm_head.weight.detach().roll(seed + 3, 0))
    return model


def questions(rows: int = 12, tokens: int = 7) -> tuple[Tensor, Tensor]:
    """Token ids, and a mask that leaves some of them out."""
    random = torch.Generator().manual_seed(0)
    x = torch.randint(2, 20, (rows, tokens), generator=random)
    lengths = torch.randint(2, tokens + 1, (rows, 1), generator=random)
    return x, torch.arange(tokens) < lengths
