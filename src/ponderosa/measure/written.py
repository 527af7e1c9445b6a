"""What an encoder-decoder writes: greedy answers to a text task, judged one by one, by difficulty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ponderosa.measure.evaluate import Evaluation, batches, share
from ponderosa.tasks.base import Split
from ponderosa.tasks.cpvr_answers import Verdict
from ponderosa.tasks.cpvr_text import CPVRText

Write = Callable[[Tensor, Tensor | None], Tensor]
"""From questions `[batch, token]` and their mask to the tokens of the answers, end marks included."""


@dataclass
class Written:
    """A verdict per example, the tokens it took, and its difficulty."""

    verdicts: list[Verdict]
    tokens: Tensor
    difficulty: Tensor
    longest: int
    kinds: tuple[str, ...]

    def evaluation(self) -> Evaluation:
        """Scored by the last number written; the steps of an answer are its tokens."""
        right = torch.tensor([float(verdict.last) for verdict in self.verdicts])
        return Evaluation(right, self.tokens.float(), self.difficulty, self.longest, adaptive=False)

    def by_difficulty(self) -> list[dict[str, Any]]:
        """Accuracy by the label and by the last number, the share of every kind, and the mean tokens, the easiest first."""
        rows = []
        for level in self.difficulty.unique().tolist():
            chosen = (self.difficulty == level).nonzero()[:, 0].tolist()
            verdicts = [self.verdicts[i] for i in chosen]
            counts = Counter(verdict.kind for verdict in verdicts)
            rows.append({
                "difficulty": level, "examples": len(chosen),
                "label": sum(v.label for v in verdicts) / len(chosen), "last": sum(v.last for v in verdicts) / len(chosen),
                "tokens": float(self.tokens[chosen].float().mean()),
                "kinds": {kind: counts[kind] / len(chosen) for kind in self.kinds},
            })  # fmt: skip
        return rows


def written(
    write: Write, task: CPVRText, split: Split = "test", examples: int = 5_000, batch_size: int = 1000, rank: int = 0,
    ranks: int = 1,
) -> Written:  # fmt: skip
    """Let `write` answer the first `examples` of a split, and judge every answer."""
    verdicts, tokens, difficulties = [], [], []
    for whole in batches(task, split, examples, batch_size):
        batch = share(whole, rank, ranks)
        ids = write(batch.x, batch.mask).cpu()
        verdicts += task.judge(ids, batch.y)
        tokens.append(token_counts(ids, task.tokenizer.eos_token_id))
        difficulties.append(batch.difficulty)
    return Written(verdicts, torch.cat(tokens), torch.cat(difficulties), task.longest, task.kinds)


def token_counts(ids: Tensor, end: int) -> Tensor:
    """The tokens of each answer `[batch]`, its end mark included.

    >>> token_counts(torch.tensor([[5, 1, 0], [5, 6, 7]]), end=1)
    tensor([2, 3])
    """
    ended = (ids == end).int()
    return ids.shape[1] - ended.cumsum(1).clamp_max(1).sum(1) + ended.amax(1)


@torch.no_grad()
def greedy(model: Any, x: Tensor, mask: Tensor | None, longest: int, *, cache: bool = True) -> Tensor:
    """The likeliest token each time `[batch, token]`, by any encoder-decoder of `transformers`, whatever its own settings."""
    from transformers import DynamicCache, EncoderDecoderCache, GenerationConfig

    own = model.generation_config
    start = own.decoder_start_token_id if own.decoder_start_token_id is not None else model.config.decoder_start_token_id
    config = GenerationConfig(
        max_new_tokens=longest, num_beams=1, do_sample=False, use_cache=cache, decoder_start_token_id=start,
        pad_token_id=own.pad_token_id, eos_token_id=own.eos_token_id,
    )  # fmt: skip
    device = next(model.parameters()).device
    mask = torch.ones_like(x) if mask is None else mask
    # a cache that grows: generate's own has as many layers as the encoder, too few for a decoder that is deeper
    known = {"past_key_values": EncoderDecoderCache(DynamicCache(), DynamicCache())} if cache else {}
    return model.generate(x.to(device), attention_mask=mask.long().to(device), generation_config=config, **known)[:, 1:]
