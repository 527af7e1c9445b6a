"""Learn-then-test (Angelopoulos et al., 2021), as CALM does it (Schuster et al., 2022): a risk kept with high probability."""

import math
from collections.abc import Iterable

from torch import Tensor


def binomial_cdf(successes: int, trials: int, probability: float) -> float:
    """The probability of at most so many successes, exactly.

    >>> round(binomial_cdf(1, 3, 0.5), 12)
    0.5
    """
    if successes >= trials or probability <= 0:
        return 1.0
    if probability >= 1:
        return 0.0
    log_p, log_q, all_ways = math.log(probability), math.log1p(-probability), math.lgamma(trials + 1)
    terms = (
        all_ways - math.lgamma(k + 1) - math.lgamma(trials - k + 1) + k * log_p + (trials - k) * log_q
        for k in range(successes + 1)
    )
    return min(math.fsum(map(math.exp, terms)), 1.0)


def upper_bound(losses: int, examples: int, delta: float) -> float:
    """What the risk is at most, with probability 1 - delta (Clopper and Pearson, 1934).

    >>> round(upper_bound(0, 299, 0.05), 4)  # the rule of three
    0.01
    """
    low, high = losses / examples if examples else 0.0, 1.0
    if losses >= examples:
        return 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if binomial_cdf(losses, examples, middle) > delta else (low, middle)
    return high


def needed(drop: float, delta: float) -> int:
    """The fewest examples that can promise anything: as many without a loss still leave a doubt of delta.

    >>> needed(0.01, 0.05)
    299
    """
    return math.ceil(math.log(delta) / math.log1p(-drop))


def safe(losses: Iterable[int], examples: int, drop: float, delta: float) -> int:
    """How many of the settings, in this order, keep their risk at or below `drop`, all of them with probability 1 - delta.

    `losses` are counted for each setting on the same examples. Each setting is tested only if all before it passed
    (fixed-sequence testing), so the probability that any is passed by mistake is at most delta.
    """
    passed = 0
    for count in losses:
        if binomial_cdf(count, examples, drop) > delta:
            break
        passed += 1
    return passed


def lost(score: Tensor, full: Tensor) -> Tensor:
    """How many examples each setting does worse on `[settings, examples]` than full depth `[examples]`."""
    return (score < full).sum(-1)
