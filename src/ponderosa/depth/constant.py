"""The same depth for every word: the control of every estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ponderosa.depth.base import WordTable
from ponderosa.depth.words import Vocabulary


class Constant(WordTable):
    """Every word as deep as every other.

    >>> Constant(4, layers=12).depths("A fine film.")
    [4, 4, 4, 4]

    Args:
        depth: of all words.
        layers: the deepest there is.
        vocabulary: of the tokenizer, for depths of token ids.
    """

    def __init__(self, depth: int, *, layers: int = 12, vocabulary: Vocabulary | None = None):
        super().__init__({}, layers=layers, unseen=depth, vocabulary=vocabulary)

    @classmethod
    def fit(
        cls, texts: Sequence[str], labels: Sequence[int] | None = None, tokenizer: Any = None, *, depth: int, layers: int = 12
    ) -> Constant:  # fmt: skip
        """The same interface as the others; texts and labels make no difference."""
        return cls(depth, layers=layers, vocabulary=None if tokenizer is None else Vocabulary.of(tokenizer))

    def facts(self) -> dict[str, Any]:
        return {"depth": self.unseen, "layers": self.layers}
