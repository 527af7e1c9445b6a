"""The oracle: the depth that each sentence needed, known afterwards. A bound for every estimator, not a method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ponderosa.depth.base import DepthEstimator
from ponderosa.depth.words import Vocabulary, split_words, word_keys
from ponderosa.keys import mix


class Oracle(DepthEstimator):
    """Every token of a known sentence as deep as the sentence needed, by the labels.

    Args:
        sentences: the depth of each, by the sum that `sentence_key` gives for its words.
        layers: the deepest; also that of unknown sentences.
        vocabulary: of the tokenizer, for depths of token ids.
    """

    def __init__(self, sentences: Mapping[str, int], *, layers: int, vocabulary: Vocabulary | None = None):
        if sentences and not 1 <= min(sentences.values()) <= max(sentences.values()) <= layers:
            raise ValueError(
                f"depths from {min(sentences.values())} to {max(sentences.values())}: from 1 to {layers} are possible"
            )
        self.sentences, self.layers, self.vocabulary = dict(sentences), layers, vocabulary

    @classmethod
    def fit(cls, texts: Sequence[str], depths: Sequence[int], tokenizer: Any = None, *, layers: int = 12) -> Oracle:
        """From the depth that each text needed, as `po.functional.pseudo_labels` tells it."""
        vocabulary = None if tokenizer is None else Vocabulary.of(tokenizer)
        lower = vocabulary is None or vocabulary.lower
        keys = [str(sentence_key(word_keys(split_words(text, lower)))) for text in texts]
        return cls(dict(zip(keys, depths, strict=True)), layers=layers, vocabulary=vocabulary)

    def facts(self) -> dict[str, Any]:
        return {"sentences": self.sentences, "layers": self.layers}

    def of_words(self, words: Sequence[str]) -> list[int]:
        return [self.sentences.get(str(sentence_key(word_keys(words))), self.layers)] * len(words)

    def of_tokens(self, ids: Tensor) -> Tensor:
        assert self.vocabulary is not None
        keys, begins = self.vocabulary.keys(ids), self.vocabulary.starts(ids) & ~self.vocabulary.is_special(ids)
        depths = [
            self.sentences.get(str(sentence_key(row[begin])), self.layers) for row, begin in zip(keys, begins, strict=True)
        ]
        return torch.tensor(depths, dtype=torch.long)[:, None].expand_as(ids)


def sentence_key(words: Tensor) -> int:
    """A number for a sentence from its words' keys, in their order."""
    return int(mix(words + torch.arange(len(words))).sum())
