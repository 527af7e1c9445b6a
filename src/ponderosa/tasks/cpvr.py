"""Conditional pointer-value retrieval (Abnar et al., 2023, section 3): follow pointers until one does not point forward."""

import torch
from torch import Tensor, nn

from ponderosa.tasks.base import Batch, Split, Task, generator


class CPVR(Task):
    """A sequence of numbers. Start at the first; while a number points to a later position, go there; the answer is the number
    at which the chain ends. The difficulty of an example is its number of hops, 1 at least.

    Positions are counted from 1. Plain: a number from 1 to `length` is pointer and value alike. Modulus: numbers go up to
    `values`, and pointer and value are the remainder by `length`; so 0 never points forward and the last position is never
    pointed to.

    Chains are built, not waited for: every number of hops has its exact share of a batch, up to rounding. Training and
    validation see few hops, the test more.

    Args:
        length: of the sequence.
        values: the largest number under "modulus"; None for the plain task.
        train_hops: the most hops in training and validation.
        test_hops: the most hops in the test.
        train_examples: in the training set, whose batches then come again; None for ever new ones.

    >>> task = CPVR(length=24)
    >>> batch = task.batch("train", 0, 4)
    >>> bool((task.solve(batch.x) == batch.y).all()), batch.difficulty.tolist()
    (True, [1, 2, 3, 4])
    """

    criterion = staticmethod(nn.functional.cross_entropy)

    def __init__(
        self, length: int = 24, values: int | None = None, train_hops: int = 4, test_hops: int = 9,
        train_examples: int | None = None,
    ):  # fmt: skip
        self.reachable = length if values is None else length - 1
        most = max(train_hops, test_hops)
        if min(train_hops, test_hops) < 1 or most > self.reachable - 1:
            raise ValueError(
                f"length={length}: 1 to {self.reachable - 1} hops fit in, but training has {train_hops} and the test "
                f"{test_hops}: make it longer, or the hops fewer"
            )
        if values is not None and values < length:
            raise ValueError(f"values={values}: at least the length, {length}, is needed, so that every position has a pointer")
        self.length, self.values, self.train_hops, self.test_hops = length, values, train_hops, test_hops
        self.input_size, self.train_examples = length, train_examples
        self.largest = values or length
        self.tokens = self.largest + 1
        self.output_size = length + 1

    def read(self, numbers: Tensor) -> Tensor:
        """What numbers say, as pointers and as values."""
        return numbers if self.values is None else numbers % self.length

    def batch(self, split: Split, index: int, size: int, seed: int = 0) -> Batch:
        """Inputs `[size, length]` and answers `[size]`, whole numbers."""
        if split == "train" and self.train_examples is not None:
            index %= max(self.train_examples // size, 1)
        first = index * size
        hops = (torch.arange(first, first + size)) % (self.test_hops if split == "test" else self.train_hops) + 1
        x = self.sample(hops, generator(split, index, seed))
        return Batch(x, self.solve(x), torch.arange(first, first + size), hops)

    def sample(self, hops: Tensor, random: torch.Generator) -> Tensor:
        """Random sequences `[batch, length]` of exactly `hops` `[batch]` hops."""
        batch, most = len(hops), int(hops.max()) if len(hops) else 0
        x = torch.randint(1, self.largest + 1, (batch, self.length), generator=random)
        chain = self._chain(hops, most, random)
        here, target = chain[:, :-1], chain[:, 1:]
        onward = self._numbers(target.clamp_max(self.length), random)
        last = chain.gather(1, hops[:, None])
        stays = torch.rand(batch, 1, generator=random) * torch.where(last < self.length, last + self._lowest_is_0, self.length)
        ending = self._numbers(stays.long() + 1 - self._lowest_is_0, random)
        steps = torch.arange(most) < hops[:, None]
        x = torch.cat([x, x[:, :1]], 1)  # one more place, for the links beyond an example's own hops
        x.scatter_(1, torch.where(steps, here - 1, self.length), onward)
        return x.scatter_(1, last - 1, ending)[:, : self.length].contiguous()

    @property
    def _lowest_is_0(self) -> int:
        """Whether a number may read as 0."""
        return int(self.values is not None)

    def _chain(self, hops: Tensor, most: int, random: torch.Generator) -> Tensor:
        """The positions of each chain in order `[batch, most + 1]`: 1, then random ones; beyond its end, length + 1."""
        # in the order of the random numbers: the first few of an unsorted topk would be far from uniform
        picked = torch.rand(len(hops), self.reachable - 1, generator=random).topk(most).indices + 2
        picked = torch.where(torch.arange(most) < hops[:, None], picked, self.length + 1).sort(1).values
        return torch.cat([torch.ones(len(hops), 1, dtype=torch.long), picked], 1)

    def _numbers(self, read: Tensor, random: torch.Generator) -> Tensor:
        """Random numbers that read as `read`."""
        if self.values is None:
            return read
        lowest = torch.where(read == 0, self.length, read)
        ways = (self.values - lowest) // self.length + 1
        return lowest + self.length * (torch.rand(read.shape, generator=random) * ways).long()

    def stops(self, x: Tensor) -> Tensor:
        """The positions that the chains of any sequences `[batch, length]` go through, in order `[batch, most hops + 1]`;

        a chain that has ended stays where it is.
        """
        said, here = self.read(x), torch.ones(len(x), 1, dtype=torch.long)
        stops = [here]
        while True:
            onward = torch.maximum(here, said.gather(1, here - 1))
            if torch.equal(onward, here):
                return torch.cat(stops, 1)
            here = onward
            stops.append(here)

    def solve(self, x: Tensor) -> Tensor:
        """The answers `[batch]` to any sequences `[batch, length]`, by following the pointers."""
        return self.read(x).gather(1, self.stops(x)[:, -1:] - 1)[:, 0]

    def guesses(self, x: Tensor) -> dict[str, Tensor]:
        """Answers `[batch]` by what can be seen without following a chain: what a network must beat.

        - "the commonest answer": the value that any chain is likeliest to end with, whatever the input.
        - "the last position": what is said at the last position that a chain can reach, where long chains end most often.
        - "the last dead end": what is said at the last position that some earlier one points to and that does not point
          forward itself.
        """
        said, places = self.read(x), torch.arange(1, self.length + 1)
        pointed = ((said[:, :, None] == places) & (places[:, None] < places)).any(1)
        dead_end = pointed & (said <= places)
        last = torch.where(dead_end, places, 1).amax(1, keepdim=True)
        lowest = 1 - self._lowest_is_0  # a chain that ends at position p says any value up to p, so the lowest is commonest
        return {
            "the commonest answer": torch.full((len(x),), lowest), "the last position": said[:, self.reachable - 1],
            "the last dead end": said.gather(1, last - 1)[:, 0],
        }  # fmt: skip

    def score(self, output: Tensor, target: Tensor) -> Tensor:
        return (output.argmax(-1) == target).to(output.dtype)


class PVR(Task):
    """Plain pointer-value retrieval: the first number points to a later position, and the answer is the number there."""

    criterion = staticmethod(nn.functional.cross_entropy)

    def __init__(self, length: int = 24):
        if length < 2:
            raise ValueError(f"length={length}: a pointer and a value at least")
        self.length = self.input_size = length
        self.tokens = self.output_size = length + 1

    def batch(self, split: Split, index: int, size: int, seed: int = 0) -> Batch:
        random = generator(split, index, seed)
        x = torch.randint(1, self.length + 1, (size, self.length), generator=random)
        x[:, 0] = torch.randint(2, self.length + 1, (size,), generator=random)
        first = index * size
        return Batch(x, self.solve(x), torch.arange(first, first + size), torch.ones(size, dtype=torch.long))

    def solve(self, x: Tensor) -> Tensor:
        """The answers `[batch]` to sequences `[batch, length]`."""
        return x.gather(1, x[:, :1] - 1)[:, 0]

    def score(self, output: Tensor, target: Tensor) -> Tensor:
        return (output.argmax(-1) == target).to(output.dtype)
