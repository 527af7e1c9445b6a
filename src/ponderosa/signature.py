"""What a function takes."""

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ponderosa.compiling import constant


@constant
def takes(function: Callable[..., Any], name: str) -> bool:
    """Whether the function has a parameter of this name."""
    return name in _parameters(function)


@lru_cache(maxsize=32)
def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    try:
        return frozenset(inspect.signature(function).parameters)
    except ValueError:  # a builtin has no signature
        return frozenset()
