"""What `torch.compile` is told, without importing it: that takes longer than importing torch."""

from collections.abc import Callable
from typing import TypeVar

Function = TypeVar("Function", bound=Callable)


def constant(function: Function) -> Function:
    """The compiler is to call the function and keep what it says, rather than look into it.

    This is all that torch.compiler.assume_constant_result does, besides importing the compiler.
    """
    vars(function)["_dynamo_marked_constant"] = True
    return function
