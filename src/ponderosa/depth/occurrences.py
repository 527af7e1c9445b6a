"""Which words there are in which texts, counted without a loop over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from ponderosa.depth.words import Vocabulary, split_words


@dataclass(frozen=True)
class Occurrences:
    """Each pair of a text and a word in it, once."""

    words: list[str]
    text: Tensor
    """The number of the text of each pair."""
    word: Tensor
    """The number of its word, in `words`."""
    vocabulary: Vocabulary | None

    @classmethod
    def of(cls, texts: Sequence[str], tokenizer: Any = None, whole_words: bool = True) -> Occurrences:
        """The words of texts: as the tokenizer makes them, or plain ones."""
        if tokenizer is None:
            return cls._plain(texts)
        vocabulary = Vocabulary.of(tokenizer, whole_words)
        return cls._tokenised(_encoded(texts, tokenizer), vocabulary)

    @classmethod
    def _plain(cls, texts: Sequence[str]) -> Occurrences:
        numbers: dict[str, int] = {}
        found = [{numbers.setdefault(word, len(numbers)) for word in split_words(text, True)} for text in texts]
        text = torch.repeat_interleave(
            torch.arange(len(found)), torch.tensor([len(words) for words in found], dtype=torch.long)
        )
        return cls(list(numbers), text, torch.tensor([w for words in found for w in words], dtype=torch.long), None)

    @classmethod
    def _tokenised(cls, encoded: Sequence[Sequence[int]], vocabulary: Vocabulary) -> Occurrences:
        lengths = torch.tensor([len(ids) for ids in encoded], dtype=torch.long)
        ids = torch.tensor(list(chain.from_iterable(encoded)), dtype=torch.long)
        owner = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
        starts = vocabulary.starts(ids) | (torch.diff(owner, prepend=torch.tensor([-1])) > 0)
        keys = vocabulary.keys(ids[None], starts[None])[0]
        counts = starts & ~vocabulary.is_special(ids)
        if vocabulary.unknown is not None:
            counts &= ids != vocabulary.unknown
        begins = counts.nonzero()[:, 0]
        unique, number = keys[begins].unique(return_inverse=True)
        pairs = (owner[begins] * len(unique) + number).unique()
        first = torch.empty_like(unique).scatter_(0, number, begins)  # any place where the word begins will do
        ends = torch.cat([starts.nonzero()[:, 0], torch.tensor([len(ids)])])
        last = ends[torch.searchsorted(ends, first, right=True)]
        plain = ids.tolist()
        words = [vocabulary.texts(plain[a:b]) for a, b in zip(first.tolist(), last.tolist(), strict=True)]
        return cls(words, pairs // max(len(unique), 1), pairs % max(len(unique), 1), vocabulary)

    def sentences_with(self, label: Tensor, classes: int) -> Tensor:
        """How many texts of each label have each word `[word, label]`."""
        counts = torch.bincount(self.word * classes + label[self.text], minlength=len(self.words) * classes)
        return counts.view(len(self.words), classes)


def _encoded(texts: Sequence[str], tokenizer: Any) -> list[list[int]]:
    """Token ids without special tokens, unclipped; the tokenizer's own warning about long texts does not apply."""
    return [encoding.ids for encoding in tokenizer.backend_tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]
