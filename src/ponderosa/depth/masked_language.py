"""A masked language model that predicts at every layer, with one head for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm import tqdm


class MaskedLanguageModel(nn.Module):
    """A pretrained encoder with a shared prediction head at every layer, its last matrix tied to the embeddings.

    Args:
        encoder: a text encoder of `transformers`.
        mask: the id of the token that stands for a masked one.
        padding: the id of padding.
        pieces: the ids among which it chooses, by default all; only these can be predicted. Those of the task's texts are a
            fifth of a vocabulary, and the product with it at every layer is most of the work.
    """

    pieces: Tensor
    place: Tensor

    def __init__(self, encoder: Any, mask: int, padding: int, pieces: Tensor | None = None):
        super().__init__()
        self.encoder, self.mask, self.padding = encoder, mask, padding
        self.embeddings: nn.Embedding = encoder.get_input_embeddings()
        count, size = self.embeddings.num_embeddings, self.embeddings.embedding_dim
        pieces = torch.arange(count) if pieces is None else pieces
        # where a piece stands among those to choose from; -1 for none of them
        place = torch.full((count,), -1).index_copy(0, pieces, torch.arange(len(pieces)))
        self.register_buffer("pieces", pieces, persistent=False)
        self.register_buffer("place", place, persistent=False)
        self.transform = nn.Sequential(nn.Linear(encoder.config.hidden_size, size), nn.GELU(), nn.LayerNorm(size))
        self.bias = nn.Parameter(torch.zeros(len(pieces)))

    def losses(self, ids: Tensor, hidden: Tensor, chosen: Tensor) -> Tensor:
        """The loss of every layer for each chosen token `[layers, chosen]`: `ids` `[batch, token]` are the true ones,
        `hidden` what the encoder is shown, True in `chosen` for the tokens to predict."""
        states = self.encoder(hidden, attention_mask=(ids != self.padding).long(), output_hidden_states=True).hidden_states
        # all layers at once: one product with the vocabulary's matrix, and one for its gradient
        seen = torch.stack([state[chosen] for state in states[1:]])
        logits = F.linear(self.transform(seen), self.embeddings.weight[self.pieces], self.bias)
        target = self.place[ids[chosen]].repeat(len(seen))
        return F.cross_entropy(logits.flatten(0, 1), target, reduction="none").view(len(seen), -1)

    def fit(
        self, encoded: Sequence[Sequence[int]], special: Tensor, *, batches: int, batch_size: int, lr: float, seed: int,
        progress: bool = False,
    ) -> float:  # fmt: skip
        """Train on texts as BERT does (15 % of the tokens; of these 80 % masked, 10 % another token, 10 % as they are), the
        losses of all layers summed. Gives the mean loss of a layer in the last tenth of the batches."""
        random = torch.Generator().manual_seed(seed)
        optimizer = torch.optim.AdamW(self.parameters(), lr=lr, weight_decay=0.0, fused=True)
        seen = []
        self.train()
        for _ in tqdm(range(batches), desc="language model", unit="batch", disable=not progress):
            picked = torch.randint(len(encoded), (batch_size,), generator=random).tolist()
            ids = pad([encoded[i] for i in picked], self.padding)
            draw = torch.rand(ids.shape, generator=random)
            chosen = (draw < 0.15) & ~special[ids]
            if not chosen.any():
                continue
            other = torch.randint(self.embeddings.num_embeddings, ids.shape, generator=random)
            hidden = torch.where(chosen & (draw < 0.12), self.mask, torch.where(chosen & (draw < 0.135), other, ids))
            loss = self.losses(ids, hidden, chosen).mean(1).sum()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.parameters(), 5.0)
            optimizer.step()
            seen.append(float(loss.detach()))
        last = seen[-max(len(seen) // 10, 1) :]
        layers = self.encoder.config.num_hidden_layers
        return sum(last) / max(len(last), 1) / layers


def pad(encoded: Sequence[Sequence[int]], padding: int) -> Tensor:
    """Ids of equal length `[batch, token]`."""
    longest = max(map(len, encoded))
    return torch.tensor([[*ids, *[padding] * (longest - len(ids))] for ids in encoded])
