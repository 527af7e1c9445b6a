"""Depth by reconstruction: a word that its context gives away early needs few layers (Liu et al., 2021, equation 4)."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from ponderosa.depth.base import WordTable
from ponderosa.depth.masked_language import MaskedLanguageModel, pad
from ponderosa.depth.words import Vocabulary

PENALTY = 0.1
"""The price of a layer, lambda, as in the paper."""
APART = 8
"""Tokens between two words that are masked in the same pass, at least: about as many as a language model masks one of."""


def penalised_depth(losses: Tensor, penalty: float) -> Tensor:
    """The depth 1..N with the least loss + penalty * depth `[...]`, from the losses of all layers `[N, ...]`.

    The paper prints a minus, but its own table, where more penalty gives less depth, needs the plus.

    >>> penalised_depth(torch.tensor([3.0, 2.0, 1.95]), 0.1), penalised_depth(torch.tensor([3.0, 2.0, 1.95]), 0.0)
    (tensor(2), tensor(3))
    """
    layers = torch.arange(1, len(losses) + 1, device=losses.device).view(-1, *(1,) * (losses.ndim - 1))
    return (losses + penalty * layers).argmin(0) + 1


class Reconstruction(WordTable):
    """Words that a masked language model finds early need few layers.

    Finding a depth takes a pass for each word, which would cost more than it saves: so each word's mean depth in the
    texts is written to a table, once. No labels are needed. `mean` has the mean depths, which the table rounds.
    """

    def __init__(
        self, table: Mapping[str, int], mean: Mapping[str, float], *, layers: int, penalty: float, unseen: int | None = None,
        vocabulary: Vocabulary | None = None,
    ):  # fmt: skip
        super().__init__(table, layers=layers, unseen=unseen, vocabulary=vocabulary)
        self.mean, self.penalty = dict(mean), penalty

    @classmethod
    def fit(
        cls, texts: Sequence[str], labels: Sequence[int] | None = None, tokenizer: Any = None, *, encoder: Any,
        penalty: float = PENALTY, batches: int = 300, batch_size: int = 32, lr: float = 1e-4, occurrences: int = 4,
        together: int = 1, max_tokens: int = 128, unseen: int | None = None, seed: int = 0, progress: bool = False,
    ) -> Reconstruction:  # fmt: skip
        """Train a prediction head at every layer on the texts, then mask each word in turn.

        Args:
            texts: of the task.
            labels: not used.
            tokenizer: a fast tokenizer of `transformers`.
            encoder: the pretrained encoder; a copy of it is trained.
            penalty: the price of a layer, lambda.
            batches: of the training; 0 for an encoder that is trained already.
            batch_size: texts in a batch, in training and in masking.
            lr: the learning rate.
            occurrences: of each word that are masked, at most.
            together: words of a text that are masked in the same pass, 8 tokens apart or more: long texts take fewer passes.
            max_tokens: where texts are clipped.
            unseen: the depth of words that are not in the texts, by default the deepest.
            seed: of the random numbers.
            progress: whether to show progress bars.
        """
        losses, vocabulary = fitted_losses(
            texts, tokenizer, encoder, batches=batches, batch_size=batch_size, lr=lr, occurrences=occurrences,
            together=together, max_tokens=max_tokens, seed=seed, progress=progress,
        )  # fmt: skip
        return cls.of(losses, penalty, vocabulary, layers=encoder.config.num_hidden_layers, unseen=unseen)

    @classmethod
    def of(
        cls, losses: Mapping[str, Tensor], penalty: float, vocabulary: Vocabulary, *, layers: int, unseen: int | None = None
    ) -> Reconstruction:
        """From the losses of every layer for each word, as `word_losses` gives them: one training serves any penalty."""
        mean = {word: float(penalised_depth(each, penalty).double().mean()) for word, each in losses.items()}
        table = {word: round(depth) for word, depth in mean.items()}
        return cls(table, mean, layers=layers, penalty=penalty, unseen=unseen, vocabulary=vocabulary)

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), "mean": self.mean, "penalty": self.penalty}


def fitted_losses(
    texts: Sequence[str], tokenizer: Any, encoder: Any, *, batches: int = 300, batch_size: int = 32, lr: float = 1e-4,
    occurrences: int = 4, together: int = 1, max_tokens: int = 128, seed: int = 0, progress: bool = False,
) -> tuple[dict[str, Tensor], Vocabulary]:  # fmt: skip
    """Train a copy of the encoder to fill in masked words at every layer; its losses for each word.

    The options are those of `Reconstruction.fit`.
    """
    if together < 1 or occurrences < 1:
        raise ValueError(f"together={together}, occurrences={occurrences}: at least one word is masked, once")
    if tokenizer is None or tokenizer.mask_token_id is None:
        raise ValueError("reconstruction needs a tokenizer with a mask token: Reconstruction.fit(..., tokenizer=...)")
    vocabulary = Vocabulary.of(tokenizer)
    encoded = tokenizer(list(texts), truncation=True, max_length=max_tokens)["input_ids"]
    torch.manual_seed(seed)
    pieces = torch.tensor(sorted({piece for ids in encoded for piece in ids}), dtype=torch.long)
    mask, padding = tokenizer.mask_token_id, tokenizer.pad_token_id or 0
    model = MaskedLanguageModel(copy.deepcopy(encoder.base_model), mask, padding, pieces)
    special = vocabulary.is_special(torch.arange(len(vocabulary.pieces)))
    if batches:
        model.fit(encoded, special, batches=batches, batch_size=batch_size, lr=lr, seed=seed, progress=progress)
    how = {"batch_size": batch_size, "occurrences": occurrences, "together": together}
    losses = word_losses(model, encoded, vocabulary, **how, progress=progress)
    return losses, vocabulary


@torch.no_grad()
def word_losses(
    model: MaskedLanguageModel,
    encoded: Sequence[Sequence[int]],
    vocabulary: Vocabulary,
    *,
    batch_size: int,
    occurrences: int,
    together: int = 1,
    progress: bool = False,
) -> dict[str, Tensor]:
    """The losses of every layer `[layers, occurrences]` for each word, masked in turn with all its pieces: their mean."""
    model.eval()
    passes = sorted(_passes(encoded, vocabulary, occurrences, together), key=lambda each: len(encoded[each[0]]))
    found: dict[str, list[Tensor]] = {}
    for start in tqdm(range(0, len(passes), batch_size), desc="words masked", unit="batch", disable=not progress):
        some = passes[start : start + batch_size]
        ids = pad([encoded[text] for text, _ in some], model.padding)
        owner = torch.full(ids.shape, -1)
        words = [(row, *place) for row, (_, places) in enumerate(some) for place in places]
        for number, (row, _, first, last) in enumerate(words):
            owner[row, first:last] = number
        chosen = owner >= 0
        losses, owner = model.losses(ids, ids.masked_fill(chosen, model.mask), chosen), owner[chosen]
        sums = torch.zeros(len(losses), len(words)).index_add(1, owner, losses)
        for (_, word, *_), mean in zip(words, (sums / torch.bincount(owner)).unbind(1), strict=True):
            found.setdefault(word, []).append(mean)
    return {word: torch.stack(each, 1) for word, each in found.items()}


Place = tuple[str, int, int]
"""A word, and where it begins and ends in its text."""


def _passes(
    encoded: Sequence[Sequence[int]], vocabulary: Vocabulary, occurrences: int, together: int
) -> Iterator[tuple[int, list[Place]]]:  # fmt: skip
    """A text and the words to mask in it, for each pass: those masked together stand far from each other."""
    counts: dict[str, int] = {}
    for text, ids in enumerate(encoded):
        passes: list[list[Place]] = []
        for place in _places(ids, vocabulary, occurrences, counts):
            fits = (each for each in passes if len(each) < together and place[1] - each[-1][2] >= APART)
            if (free := next(fits, None)) is None:
                passes.append([place])
            else:
                free.append(place)
        yield from ((text, each) for each in passes)


def _places(ids: Sequence[int], vocabulary: Vocabulary, occurrences: int, counts: dict[str, int]) -> Iterator[Place]:
    """The words of a text, at most so many times in all texts."""
    tokens = torch.tensor(ids, dtype=torch.long)
    begins = [*vocabulary.starts(tokens).nonzero()[:, 0].tolist(), len(ids)] if ids else []
    special = vocabulary.is_special(tokens).tolist()
    for first, last in pairwise(begins):
        word = vocabulary.texts(ids[first:last])
        if not special[first] and ids[first] != vocabulary.unknown and counts.get(word, 0) < occurrences:
            counts[word] = counts.get(word, 0) + 1
            yield word, first, last
