"""Some tokens of a batch, and where they stand."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from ponderosa.host import Array, host, tensor


class Tokens:
    """The tokens that `chosen` `[batch, token]` says; what follows from it is found once, for as long as they stay the same."""

    def __init__(self, chosen: Tensor | Array):
        self.given, self.chosen = chosen, host(chosen)
        self.rows = np.flatnonzero(self.chosen)
        """Their places in the flattened batch."""
        self.all = len(self.rows) == self.chosen.size
        self._counts: list[int] | None = None
        self._index: Tensor | None = None

    @staticmethod
    def of(chosen: Tensor | Array, known: Tokens | None) -> Tokens:
        """These tokens: as they are known already, if `known` are the very same."""
        return known if known is not None and known.given is chosen else Tokens(chosen)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def counts(self) -> list[int]:
        """How many there are in each example."""
        if self._counts is None:
            self._counts = [len(self)] if len(self.chosen) == 1 else self.chosen.sum(1).tolist()
        return self._counts

    def index(self, like: Tensor) -> Tensor:
        """The places as a tensor where `like` is."""
        if self._index is None:
            self._index = tensor(self.rows, like)
        return self._index

    def pack(self, values: Tensor) -> Tensor:
        """Their rows of `[batch, token, ...]`: without a copy, where all tokens are chosen."""
        flat = values.flatten(0, 1)
        return flat if self.all else flat.index_select(0, self.index(values))

    def put(self, values: Tensor, rows: Tensor, in_place: bool = False) -> Tensor:
        """`[batch, token, ...]` with their rows replaced."""
        if self.all:
            return rows.view_as(values)
        flat = values.flatten(0, 1)
        write = torch.Tensor.index_copy_ if in_place else torch.Tensor.index_copy
        return write(flat, 0, self.index(values), rows).view_as(values)


@lru_cache(maxsize=16)
def everyone(examples: int, tokens: int) -> Tokens:
    """All tokens of a batch."""
    return Tokens(np.ones((examples, tokens), bool))
