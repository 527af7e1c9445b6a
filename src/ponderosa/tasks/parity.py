"""Parity: is the number of 1s in a vector of -1, 0 and 1 odd? (Graves, 2016)"""

from typing import Literal

import torch
from torch import Tensor, nn

from ponderosa.tasks.base import Batch, Split, Task, generator


class Parity(Task):
    """A vector of zeros in which a random number of places are set to -1 or 1; the label is 1 if the 1s are odd in number.

    The number of places is uniform from 1 to `length` ("interpolation": the generator of the PonderNet report). Under
    "extrapolation", as in the original PonderNet paper, training and validation see the lower half of these numbers and
    the test the upper half. The difficulty of an example is how many of its places are set.

    Args:
        length: of the vector.
        setting: "interpolation" or "extrapolation".
    """

    output_size = 1
    criterion = staticmethod(nn.functional.binary_cross_entropy_with_logits)

    def __init__(self, length: int = 16, setting: Literal["interpolation", "extrapolation"] = "interpolation"):
        if length < 1 or (length < 2 and setting == "extrapolation"):
            raise ValueError(f"length={length}: at least 1 is needed, and 2 for extrapolation")
        if setting not in ("interpolation", "extrapolation"):
            raise ValueError(f'setting={setting!r}: choose "interpolation" or "extrapolation"')
        self.length = self.input_size = length
        self.setting = setting

    def counts(self, split: Split) -> tuple[int, int]:
        """The fewest and the most places that are set."""
        if self.setting == "interpolation":
            return 1, self.length
        half = self.length // 2
        return (half + 1, self.length) if split == "test" else (1, half)

    def batch(self, split: Split, index: int, size: int, seed: int = 0) -> Batch:
        random = generator(split, index, seed)
        low, high = self.counts(split)
        count = torch.randint(low, high + 1, (size, 1), generator=random)
        places = torch.rand(size, self.length, generator=random).argsort(1)  # a permutation: places 0..count-1 are set
        signs = torch.randint(0, 2, (size, self.length), generator=random) * 2.0 - 1
        x = torch.where(places < count, signs, 0.0)
        y = ((x == 1).sum(1, keepdim=True) % 2).to(x.dtype)
        return Batch(x, y, torch.arange(index * size, (index + 1) * size), count[:, 0])

    def score(self, output: Tensor, target: Tensor) -> Tensor:
        return ((output > 0) == (target > 0.5)).to(output.dtype).flatten(1).mean(1)
