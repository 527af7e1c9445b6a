"""Which words there are in which texts, counted without a loop over them."""

from __future__ import annotations

import re
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
            return cls._plain(texts, True, None)
        vocabulary = Vocabulary.of(tokenizer, whole_words)
        odd = _not_plain(tokenizer) if whole_words else None
        rows = range(len(texts)) if odd is None else [i for i, text in enumerate(texts) if odd.search(text)]
        tokenised = cls._tokenised(_encoded([texts[i] for i in rows], tokenizer), vocabulary)._among(rows)
        if odd is None:
            return tokenised
        others = sorted({*range(len(texts))}.difference(rows))
        plain = cls._plain([texts[i] for i in others], vocabulary.lower, vocabulary)
        return plain._known(tokenizer)._among(others)._joined(tokenised)

    @classmethod
    def _plain(cls, texts: Sequence[str], lower: bool, vocabulary: Vocabulary | None) -> Occurrences:
        numbers: dict[str, int] = {}
        once = (dict.fromkeys(split_words(text, lower)) for text in texts)
        found = [[numbers.setdefault(word, len(numbers)) for word in words] for words in once]
        text = torch.repeat_interleave(
            torch.arange(len(found)), torch.tensor([len(words) for words in found], dtype=torch.long)
        )
        return cls(list(numbers), text, torch.tensor([w for words in found for w in words], dtype=torch.long), vocabulary)

    def _known(self, tokenizer: Any) -> Occurrences:
        """Without the words that the tokenizer has no pieces for."""
        unknown = tokenizer.unk_token_id
        kept = torch.tensor([unknown not in ids for ids in _encoded(self.words, tokenizer)], dtype=torch.bool)
        words = [word for word, keep in zip(self.words, kept.tolist(), strict=True) if keep]
        stays = kept[self.word] if len(kept) else kept
        return Occurrences(words, self.text[stays], (kept.cumsum(0) - 1)[self.word[stays]], self.vocabulary)

    def _among(self, rows: Sequence[int]) -> Occurrences:
        """The same texts by their numbers among others."""
        return Occurrences(self.words, torch.tensor(rows, dtype=torch.long)[self.text], self.word, self.vocabulary)

    def _joined(self, other: Occurrences) -> Occurrences:
        """These texts and others."""
        numbers = {word: i for i, word in enumerate(self.words)}
        renamed = torch.tensor([numbers.setdefault(word, len(numbers)) for word in other.words], dtype=torch.long)
        word = torch.cat([self.word, renamed[other.word]])
        return Occurrences(list(numbers), torch.cat([self.text, other.text]), word, self.vocabulary)

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

    def rare(self, most: int) -> list[str]:
        """The words that stand in so many texts or fewer."""
        counts = torch.bincount(self.word, minlength=len(self.words)).tolist()
        return [word for word, count in zip(self.words, counts, strict=True) if count <= most]

    def sentences_with(self, label: Tensor, classes: int) -> Tensor:
        """How many texts of each label have each word `[word, label]`."""
        counts = torch.bincount(self.word * classes + label[self.text], minlength=len(self.words) * classes)
        return counts.view(len(self.words), classes)


def _not_plain(tokenizer: Any) -> re.Pattern[str] | None:
    """What a text must not have to be split into words without the tokenizer, many times faster: BERT's splits what is
    plain ASCII as `split_words` does. None where no text can be."""
    if type(tokenizer.backend_tokenizer.pre_tokenizer).__name__ != "BertPreTokenizer":
        return None
    special = "|".join(map(re.escape, tokenizer.all_special_tokens))
    return re.compile(rf"[^\t\n\r\x20-\x7e]|{special}")


def _encoded(texts: Sequence[str], tokenizer: Any) -> list[list[int]]:
    """Token ids without special tokens, unclipped; the tokenizer's own warning about long texts does not apply."""
    return [encoding.ids for encoding in tokenizer.backend_tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]
