"""The depths of a sentence dealt at random among its words: the control that says what knowing the word is worth."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import torch
from torch import Tensor

from ponderosa.depth.base import WordTable


class Shuffled(WordTable):
    """A table of words whose depths change places within each sentence: as deep on average, and spread as widely.

    Who gets which depends on the sentence alone, so it is the same whatever else is in the batch. Of token ids it is the pieces
    of words that change places, so here, and only here, the pieces of a word may differ.

    >>> words = {"a": 1, "fine": 2, "film": 4}
    >>> sorted(Shuffled(words, layers=4).depths("a fine film"))
    [1, 2, 4]
    """

    def of_words(self, words: Sequence[str]) -> list[int]:
        depths = super().of_words(words)
        return [depths[i] for i in _order(" ".join(words).encode(), len(words)).tolist()]

    def of_tokens(self, ids: Tensor) -> Tensor:
        assert self.vocabulary is not None
        depths = super().of_tokens(ids).clone()
        for sentence, depth, special in zip(ids, depths, self.vocabulary.is_special(ids), strict=True):
            places = (~special).nonzero()[:, 0]
            depth[places] = depth[places[_order(sentence[places].numpy().tobytes(), len(places))]]
        return depths


def _order(content: bytes, count: int) -> Tensor:
    return torch.randperm(count, generator=torch.Generator().manual_seed(zlib.crc32(content)))
