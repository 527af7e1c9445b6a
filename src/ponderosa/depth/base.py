"""Depth known in advance: the contract of an estimator, and the table of words that most of them come down to."""

from __future__ import annotations

import copy
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from ponderosa.depth.words import Vocabulary, split_words, word_keys
from ponderosa.tree import Tree

FORMAT = "ponderosa depths 1"


class DepthEstimator(ABC):
    """Says how many layers each word needs, before the first one runs. As the plan of `PlannedDepth` it is given token ids.

    Depths go from 1 to `layers`. A word's pieces share its depth; special tokens go as deep as the sentence's deepest word.
    """

    unit: ClassVar = "token"
    kinds: ClassVar[dict[str, Any]] = {}
    layers: int
    vocabulary: Vocabulary | None

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        DepthEstimator.kinds[cls.__name__] = cls

    @abstractmethod
    def of_words(self, words: Sequence[str]) -> list[int]:
        """The depth of each word of a sentence."""

    @abstractmethod
    def of_tokens(self, ids: Tensor) -> Tensor:
        """The depth of each token `[batch, token]`."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What a file must hold besides the vocabulary: plain values, as the constructor takes them."""

    def depths(self, what: str | Sequence[str] | Tensor) -> Any:
        """The depth of each word of a text, or of several texts, or of each token of ids `[batch, token]`."""
        if isinstance(what, Tensor):
            if self.vocabulary is None:
                raise ValueError("depths of token ids need the tokenizer's words: fit the estimator with tokenizer=...")
            if what.ndim != 2 or what.is_floating_point():
                raise ValueError(f"the tokens are {what.dtype} {list(what.shape)}: ids [batch, token] are needed")
            return self.of_tokens(what.cpu())
        if isinstance(what, str):
            return self.of_words(split_words(what, self.vocabulary is None or self.vocabulary.lower))
        return [self.depths(text) for text in what]

    def __call__(self, x: Tree) -> Tensor:
        """As a plan: the depths of a model's input, ids or a dict with `input_ids`."""
        return self.depths(x["input_ids"] if isinstance(x, dict) else x)

    def save(self, path: Path | str) -> None:
        """Write the estimator to one JSON file."""
        vocabulary = None if self.vocabulary is None else asdict(self.vocabulary)
        text = {"format": FORMAT, "kind": type(self).__name__, **self.facts(), "vocabulary": vocabulary}
        Path(path).write_text(json.dumps(text, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read an estimator from its file, whichever kind it is."""
        try:
            facts = json.loads(Path(path).read_text(encoding="utf-8"))
            known = facts.pop("format") == FORMAT
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is not a file of depths ({error}): `save` of an estimator writes one") from error
        kind = DepthEstimator.kinds.get(facts.pop("kind")) if known else None
        if kind is None or not issubclass(kind, cls):
            raise ValueError(f"{path} holds no {cls.__name__} that this version knows")
        vocabulary = facts.pop("vocabulary")
        return kind(**facts, vocabulary=None if vocabulary is None else Vocabulary(**vocabulary))


class WordTable(DepthEstimator):
    """An estimator that looks each word up in a table.

    Args:
        table: the depth of each word.
        layers: the deepest.
        unseen: the depth of a word that is not in the table; the deepest if not given.
        vocabulary: of the tokenizer, for depths of token ids.
    """

    def __init__(
        self, table: Mapping[str, int], *, layers: int, unseen: int | None = None, vocabulary: Vocabulary | None = None
    ):
        if layers < 1:
            raise ValueError(f"layers={layers}: at least one is needed")
        self.unseen = layers if unseen is None else unseen
        low, high = min([self.unseen, *table.values()]), max([self.unseen, *table.values()])
        if low < 1 or high > layers:
            raise ValueError(f"depths from {low} to {high}: they must lie between 1 and layers={layers}")
        self.table, self.layers, self.vocabulary = dict(table), layers, vocabulary

    def facts(self) -> dict[str, Any]:
        return {"table": self.table, "layers": self.layers, "unseen": self.unseen}

    def of_words(self, words: Sequence[str]) -> list[int]:
        return [self.table.get(word, self.unseen) for word in words]

    def without(self, words: Iterable[str]) -> Self:
        """The same estimator to which these words are unseen."""
        if isinstance(words, str):
            raise TypeError(f"words={words!r}: several words are needed, as [{words!r}]")
        gone = set(words)
        return self._with({word: depth for word, depth in self.table.items() if word not in gone})

    def at_least(self, depth: int) -> Self:
        """The same estimator, but no word goes less deep than this: it is seen in its context before it halts.

        >>> WordTable({"a": 1, "fine": 2, "film": 4}, layers=4).at_least(3).depths("a fine film")
        [3, 3, 4]
        """
        if not 1 <= depth <= self.layers:
            raise ValueError(f"depth={depth}: from 1 to layers={self.layers} is needed")
        other = self._with({word: max(of_word, depth) for word, of_word in self.table.items()})
        other.unseen = max(self.unseen, depth)
        return other

    def _with(self, table: dict[str, int]) -> Self:
        other = copy.copy(self)
        for known in ("_sorted", "_alone"):
            other.__dict__.pop(known, None)
        other.table = table
        return other

    @cached_property
    def _sorted(self) -> tuple[Tensor, Tensor]:
        keys, order = word_keys(self.table).sort()
        return keys, torch.tensor(list(self.table.values()), dtype=torch.long)[order]

    def of_tokens(self, ids: Tensor) -> Tensor:
        assert self.vocabulary is not None
        whole = not self.vocabulary.goes_on(ids).any()
        depths = self._of_places(self._alone[ids]) if whole else self._look_up(self.vocabulary.keys(ids))
        return deepest_for_special(depths, self.vocabulary.is_special(ids), self.unseen)

    @cached_property
    def _alone(self) -> Tensor:
        """Where each id, as a whole word, stands in the table: where all of a text's are whole, none has to be put together."""
        assert self.vocabulary is not None
        return self._places(self.vocabulary.piece_keys)

    def _look_up(self, keys: Tensor) -> Tensor:
        return self._of_places(self._places(keys))

    def _places(self, keys: Tensor) -> Tensor:
        """Where words stand in the sorted table; -1 for unseen ones."""
        known, _ = self._sorted
        if not len(known):
            return torch.full_like(keys, -1)
        place = torch.searchsorted(known, keys).clamp_max(len(known) - 1)
        return torch.where(known[place] == keys, place, -1)

    def _of_places(self, places: Tensor) -> Tensor:
        _, depths = self._sorted
        return torch.where(places < 0, self.unseen, depths[places]) if len(depths) else torch.full_like(places, self.unseen)


def deepest_for_special(depths: Tensor, special: Tensor, otherwise: int) -> Tensor:
    """Special tokens get the depth of their sentence's deepest word; where there is none, `otherwise`."""
    deepest = torch.where(special, 0, depths).amax(1, keepdim=True) if depths.shape[1] else depths[:, :0].sum(1, keepdim=True)
    return torch.where(special, torch.where(deepest > 0, deepest, otherwise), depths)
