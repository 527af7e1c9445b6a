"""Small accounts on the host: for a few numbers numpy takes a tenth of the time of torch, and more so between the large
matrix products of a step, after which nothing is in the cache any more."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]


def host(values: Any) -> Any:
    """The numbers of a tensor as an array on the host, without a copy where they are there already; others as they are."""
    return values.numpy(force=True) if isinstance(values, Tensor) else values


def tensor(values: Array, like: Tensor) -> Tensor:
    """An array as a tensor where `like` is."""
    found = torch.from_numpy(np.ascontiguousarray(values))
    return found if like.device == found.device else found.to(like.device)
