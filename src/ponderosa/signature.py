"""What a function takes."""

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any


def takes(function: Callable[..., Any], name: str) -> bool:
    """Whether the function has a parameter of this name."""
    return name in _parameters(function)


# The compiler cannot look into signatures: it is to call the function and keep what it says. This is all that
# torch.compiler.assume_constant_result does, besides importing the compiler, which takes longer than importing torch.
takes._dynamo_marked_constant = True  # type: ignore[attr-defined]


@lru_cache(maxsize=32)
def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    try:
        return frozenset(inspect.signature(function).parameters)
    except ValueError:  # a builtin has no signature
        return frozenset()
