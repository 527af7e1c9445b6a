"""Which word a token belongs to, from token ids alone: so that a depth can be looked up for a whole batch at once."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import torch
from torch import Tensor

from ponderosa.keys import mix

_BASE = 0x5851F42D4C957F2D  # odd: no power of it is zero modulo 2^64
_LONGEST = 1 << 16
_WORD = re.compile(r"[^\W_]+|[^\w\s]|_")
SUPPORTED = 'WordPiece ("##" continues a word), byte-level BPE ("Ġ" begins one), SentencePiece ("▁" begins one), whole words'


def split_words(text: str, lower: bool) -> list[str]:
    """Words and single signs, as BERT's tokenizer sees them.

    >>> split_words("Don't panic!", lower=True)
    ['don', "'", 't', 'panic', '!']
    """
    if lower and text.isascii():
        text = text.lower()
    elif lower:
        text = "".join(c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")
    return _WORD.findall(text)


def word_keys(words: Iterable[str]) -> Tensor:
    """A number for each word, from its letters: those of its pieces, each at its place, sum up to it."""
    texts = list(words)
    letters = torch.tensor([ord(c) for text in texts for c in text], dtype=torch.long)
    lengths = torch.tensor([len(text) for text in texts], dtype=torch.long)
    owner = torch.repeat_interleave(torch.arange(len(texts)), lengths)
    places = torch.arange(len(letters)) - (lengths.cumsum(0) - lengths)[owner]
    return torch.zeros(len(texts), dtype=torch.long).index_add(0, owner, mix(letters) * _powers()[places])


@lru_cache(maxsize=1)
def _powers() -> Tensor:
    """The powers of the base, modulo 2^64."""
    return torch.cat([torch.ones(1, dtype=torch.long), torch.full((_LONGEST,), _BASE)]).cumprod(0)


@dataclass(frozen=True)
class Vocabulary:
    """What a tokenizer's ids stand for: enough to tell words from ids, and to be written to a file."""

    pieces: list[str]
    """The text of each id, without the marks that begin or continue a word."""
    continues: list[int]
    """The ids that continue the word of the id before."""
    special: list[int]
    """The ids that are no words: padding, the sentence's begin and end."""
    unknown: int | None
    lower: bool
    """Whether capital letters and accents make no difference."""

    @classmethod
    def of(cls, tokenizer: Any, whole_words: bool = True) -> Vocabulary:
        """The vocabulary of a fast tokenizer of `transformers`; without `whole_words` every piece counts as a word."""
        model: Any = getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)
        kind = type(model).__name__
        tokens = tokenizer.convert_ids_to_tokens(range(len(tokenizer))) if model is not None else []
        mark = next((m for m in "Ġ▁" if any(t.startswith(m) for t in tokens)), None)
        if not (kind in ("WordPiece", "WordLevel") or (kind in ("BPE", "Unigram") and mark)):
            raise ValueError(
                f"{type(tokenizer).__name__} (model {kind}) cannot be read: supported are fast tokenizers with {SUPPORTED}"
            )
        if kind == "WordPiece":
            prefix = model.continuing_subword_prefix
            goes_on = [t.startswith(prefix) and t != prefix for t in tokens]
            pieces = [t.removeprefix(prefix) if on else t for t, on in zip(tokens, goes_on, strict=True)]
        else:
            goes_on = [kind != "WordLevel" and not t.startswith(mark or "") and t[:1].isalnum() for t in tokens]
            pieces = [t.removeprefix(mark) if mark else t for t in tokens]
        special = [i for i in tokenizer.all_special_ids if i != tokenizer.unk_token_id]
        lower = tokenizer.tokenize("Ab") == tokenizer.tokenize("ab")
        continues = [i for i, on in enumerate(goes_on) if on and whole_words]
        return cls(pieces, continues, sorted(special), tokenizer.unk_token_id, lower)

    @cached_property
    def _tables(self) -> dict[str, Tensor]:
        size = len(self.pieces)

        def marked(ids: Sequence[int]) -> Tensor:
            return torch.zeros(size, dtype=torch.bool).index_fill(0, torch.tensor(ids, dtype=torch.long), True)

        lengths = torch.tensor([len(piece) for piece in self.pieces])
        return {
            "keys": word_keys(self.pieces), "lengths": lengths,
            "continues": marked(self.continues), "special": marked(self.special),
        }  # fmt: skip

    @property
    def piece_keys(self) -> Tensor:
        """The key of each id's text, as a whole word."""
        return self._tables["keys"]

    def is_special(self, ids: Tensor) -> Tensor:
        return self._tables["special"][ids]

    def goes_on(self, ids: Tensor) -> Tensor:
        """Whether each id is of those that continue the word before."""
        return self._tables["continues"][ids]

    def starts(self, ids: Tensor) -> Tensor:
        """Whether each id `[..., token]` begins a word, or is special."""
        continues, special = self.goes_on(ids), self.is_special(ids)
        after_special = torch.cat([torch.ones_like(special[..., :1]), special[..., :-1]], -1)
        return ~continues | after_special | special

    def keys(self, ids: Tensor, starts: Tensor | None = None) -> Tensor:
        """The key of each token's word `[batch, token]`, as `word_keys` gives it for the word's text."""
        if not ids.numel():
            return torch.zeros_like(ids)
        tables = self._tables
        starts = self.starts(ids) if starts is None else starts
        lengths = tables["lengths"][ids]
        before = lengths.cumsum(1) - lengths
        offset = before - torch.where(starts, before, 0).cummax(1).values
        word = starts.cumsum(1) - 1
        parts = tables["keys"][ids] * _powers()[offset.clamp_max(_LONGEST)]
        return torch.zeros_like(parts).scatter_add(1, word, parts).gather(1, word)

    def texts(self, ids: Sequence[int]) -> str:
        """The word that these pieces make."""
        return "".join(self.pieces[i] for i in ids)
