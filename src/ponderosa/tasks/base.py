"""The contract of a task: batches by number, a criterion, a score and a difficulty per example."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import torch
from torch import Tensor

from ponderosa.keys import mix
from ponderosa.tree import Tree, leaves

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
SHOWN = 64
"""Numbers of an input that fit on a page."""


@dataclass
class Batch:
    """Some examples: input, target, the number that names each, and how hard it is."""

    x: Tree
    y: Tensor
    key: Tensor
    difficulty: Tensor
    mask: Tensor | None = None

    def __len__(self) -> int:
        return len(self.y)


class Task(ABC):
    """What is learned. Batches are numbered: the same number gives the same batch, whatever came before,

    so a resumed run and a run on several devices see the very same data.
    """

    input_size: int
    """Of the input vector; of an image, the features that a step takes which does not take tokens."""
    tokens: int | None = None
    """How many different tokens there are, where the input is a sequence of their numbers `[batch, token]`."""
    image: tuple[int, ...] | None = None
    """Channels, height and width, where the input is an image `[batch, channel, height, width]`."""
    length: int
    """Of the input: of the longest sequence."""
    output_size: int
    criterion: Callable[..., Tensor]
    labels: Sequence[str] | None = None
    """The names of the classes, where they have any."""
    at_once: int = 1000
    """How many examples are comfortably evaluated at once."""

    @abstractmethod
    def batch(self, split: Split, index: int, size: int, seed: int = 0) -> Batch:
        """Batch number `index` of `size` examples."""

    @abstractmethod
    def score(self, output: Tensor, target: Tensor) -> Tensor:
        """How good each answer is, from 0 to 1 `[batch]`."""

    def size(self, split: Split) -> int | None:
        """How many examples there are; None for as many as anybody asks for."""
        return None

    def words(self, x: Tree) -> list[str]:
        """One example's input without its padding as words, one for each token: how a page shows it."""
        return numbers(x)

    def draw(self, axis: Any, x: Tree, depths: Tensor | None = None) -> None:
        """Draw one example's input on an axis of matplotlib: by default its words. `depths` are those of its tokens."""
        axis.text(0.5, 0.5, " ".join(self.words(x)), ha="center", va="center", wrap=True)
        axis.set_axis_off()

    def picture(self, x: Tree) -> str | None:
        """One example's input as HTML, where it is something to look at: shown instead of its words."""
        return None


def numbers(x: Tree) -> list[str]:
    """The first numbers of an input as words."""
    return [f"{number:.4g}" for number in leaves(x)[0].flatten()[:SHOWN].tolist()]


def generator(split: Split, index: int, seed: int) -> torch.Generator:
    """The random numbers of one batch, and of no other."""
    name = torch.tensor(seed * len(SPLITS) + SPLITS.index(split))
    return torch.Generator().manual_seed(int(mix(mix(name) + index)))


def rows_of(split: Split, index: int, size: int, count: int, seed: int) -> Tensor:
    """The examples of a batch, of `count` there are: training goes through a new shuffle of them in every epoch, validation
    and test are in order and end with the last."""
    numbers = torch.arange(index * size, (index + 1) * size)
    if split != "train":
        return numbers[numbers < count]
    epochs = range(index * size // count, ((index + 1) * size - 1) // count + 1)
    orders = torch.cat([_shuffle(count, epoch, seed) for epoch in epochs])
    return orders[numbers - epochs[0] * count]


@lru_cache(maxsize=2)
def _shuffle(count: int, epoch: int, seed: int) -> Tensor:
    return torch.randperm(count, generator=generator("train", epoch, seed))
