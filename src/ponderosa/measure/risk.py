"""A threshold with a guarantee (Learn then Test, as in CALM): exact binomial tests in a fixed sequence."""

import math
from collections.abc import Iterable


def binomial_tail(errors: int, examples: int, risk: float) -> float:
    """The probability of at most so many errors in independent examples if each is one with probability `risk`.

    >>> round(binomial_tail(1, 3, 0.5), 6)  # (1 + 3) of 8
    0.5
    """
    ways = (math.lgamma(examples + 1) - math.lgamma(k + 1) - math.lgamma(examples - k + 1) for k in range(errors + 1))
    each = (math.exp(w + k * math.log(risk) + (examples - k) * math.log1p(-risk)) for k, w in enumerate(ways))
    return min(1.0, sum(each))


def boldest(errors: Iterable[tuple[float, int]], examples: int, risk: float, delta: float) -> float | None:
    """Of knobs and their errors on held-out examples, the most careful first, the last one before any that is not shown to
    have a risk of at most `risk`; None if not even the first is. It is wrong with probability `delta` at most, however many
    knobs there are; those after the first failure are not looked at.

    >>> boldest([(0.9, 0), (0.8, 1), (0.7, 9), (0.6, 0)], examples=1000, risk=0.01, delta=0.05)
    0.8
    """
    if not (0 < risk < 1 and 0 < delta < 1):
        raise ValueError(f"risk={risk}, delta={delta}: both lie between 0 and 1")
    found = None
    for knob, count in errors:
        if binomial_tail(count, examples, risk) > delta:
            break
        found = knob
    return found
