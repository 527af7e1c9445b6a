"""Depth by mutual information: the more a word says about the label, the fewer layers it needs (Liu et al., 2021)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ponderosa.depth.base import WordTable
from ponderosa.depth.occurrences import Occurrences
from ponderosa.depth.words import Vocabulary

SMOOTH = 10
"""One divided by the smoothing that is added to each cell of a table: 0.1, as in the paper."""


def mutual_information(present: Tensor, sentences: Tensor) -> Tensor:
    """MI(x) of each word in nats `[word]` (equation 2), from the number of sentences of each label that have the word
    `[word, label]`, and of all sentences of each label `[label]`.

    Per label a 2x2 table (has the word, has the label) of sentences, 0.1 added to each cell, and the marginals of these.
    Words that are independent of every label have exactly 0, without rounding.

    >>> mutual_information(torch.tensor([[1, 1], [2, 0]]), torch.tensor([2, 2])).tolist()[0]
    0.0
    """
    total = sentences.sum()
    both = present
    word_only = present.sum(1, keepdim=True) - both
    label_only = sentences - both
    neither = total - both - word_only - label_only
    cells = [SMOOTH * cell + 1 for cell in (both, word_only, label_only, neither)]
    both, word_only, label_only, neither = cells
    excess = both * neither - word_only * label_only  # whole numbers: zero exactly where the two are independent
    everything = (both + word_only + label_only + neither).double()
    word, no_word, label, no_label = both + word_only, label_only + neither, both + label_only, word_only + neither
    sides = [
        (both, word, label, 1),
        (word_only, word, no_label, -1),
        (label_only, no_word, label, -1),
        (neither, no_word, no_label, 1),
    ]
    terms = [cell / everything * torch.log1p(sign * excess / (a * b).double()) for cell, a, b, sign in sides]
    return torch.where(excess == 0, 0.0, sum(terms, torch.zeros_like(everything))).sum(1)


def bins(information: Tensor, layers: int) -> Tensor:
    """Depths 1..layers `[word]`: the fixed-width bin of -log MI over the words with MI > 0; MI = 0 is the deepest.

    >>> bins(torch.tensor([0.5, 0.05, 0.005, 0.0]), 3)
    tensor([1, 2, 3, 3])
    """
    positive = information > 0
    scaled = -information[positive].log()
    depths = torch.full(information.shape, layers)
    if len(scaled):
        low, high = scaled.min(), scaled.max()
        width = (high - low) / layers
        place = ((scaled - low) / width).long() if width > 0 else torch.zeros_like(scaled, dtype=torch.long)
        depths[positive] = place.clamp_max(layers - 1) + 1
    return depths


class MutualInformation(WordTable):
    """Words that tell much about the label need few layers, those that tell little need many.

    >>> texts, labels = ["a fine film", "a dull film", "fine acting", "dull acting"], [1, 0, 1, 0]
    >>> MutualInformation.fit(texts, labels, layers=3).depths("a fine plot")
    [3, 1, 3]

    `information` has the mutual information of each word, in nats.
    """

    def __init__(
        self, table: Mapping[str, int], information: Mapping[str, float], *, layers: int = 12, unseen: int | None = None,
        vocabulary: Vocabulary | None = None,
    ):  # fmt: skip
        super().__init__(table, layers=layers, unseen=unseen, vocabulary=vocabulary)
        self.information = dict(information)

    @classmethod
    def fit(
        cls, texts: Sequence[str], labels: Sequence[int], tokenizer: Any = None, *, layers: int = 12,
        unseen: int | None = None, whole_words: bool = True,
    ) -> MutualInformation:  # fmt: skip
        """Count the words of the training split.

        Args:
            texts: of the training split only: those of the test would tell its labels.
            labels: a class for each text.
            tokenizer: a fast tokenizer of `transformers`, whose words and ids are meant; plain words if not given.
            layers: the number of bins.
            unseen: the depth of words that are not in the texts, by default the deepest.
            whole_words: whether a word's pieces count together; if not, each is a word of its own.
        """
        if len(texts) != len(labels) or not len(texts):
            raise ValueError(
                f"{len(texts)} texts and {len(labels)} labels: a label for each text is needed, and one text at least"
            )
        found = Occurrences.of(texts, tokenizer, whole_words)
        classes, label = torch.as_tensor(labels).unique(return_inverse=True)
        present = found.sentences_with(label, len(classes))
        information = mutual_information(present, torch.bincount(label, minlength=len(classes)))
        table = dict(zip(found.words, bins(information, layers).tolist(), strict=True))
        kept = dict(zip(found.words, information.tolist(), strict=True))
        return cls(table, kept, layers=layers, unseen=unseen, vocabulary=found.vocabulary)

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), "information": self.information}
