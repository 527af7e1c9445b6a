"""Numbers for people: what is missing is a dash, what is shown has as many digits as it deserves."""

import math
from numbers import Real

DASH = "\N{EN DASH}"  # for what is missing
TIMES = "\N{MULTIPLICATION SIGN}"
NBSP = "\N{NO-BREAK SPACE}"  # a unit never ends up alone on the next line
SCALES = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))


def finite(value: object) -> float | None:
    """The value as a float, or None if it is missing, not a number, or not finite."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def ratio(top: object, bottom: object) -> float | None:
    """top / bottom, or None where either is missing or nothing can be said."""
    over, under = finite(top), finite(bottom)
    return over / under if over is not None and under else None


def percent(value: object) -> str:
    """A share as a percentage; it says 100 only of all, 0 only of none.

    >>> percent(0.9871), percent(0.99996)
    ('98.7\\xa0%', '99.996\\xa0%')
    """
    share = finite(value)
    if share is None:
        return DASH
    text = f"{100 * share:.1f}"
    if text in ("100.0", "0.0") and share not in (0, 1):
        text = f"{100 * share:.3f}".rstrip("0").rstrip(".")
    return f"{text}{NBSP}%"


def decimal(value: object, digits: int = 1) -> str:
    """A number with so many digits after the point.

    >>> decimal(3.14159)
    '3.1'
    """
    number = finite(value)
    return DASH if number is None else f"{number:,.{digits}f}"


def quantity(value: object) -> str:
    """A large number with three significant digits and a unit prefix.

    >>> quantity(120_400), quantity(999_960)
    ('120\\xa0k', '1\\xa0M')
    """
    number = finite(value)
    if number is None:
        return DASH
    number = float(f"{number:.3g}")  # rounded first: 999,960 is 1 M, not 1e+03 k
    for unit, scale in SCALES:
        if abs(number) >= scale:
            return f"{number / scale:g}{NBSP}{unit}"
    return f"{number:g}"


def duration(seconds: object) -> str:
    """A length of time, from microseconds to hours.

    >>> duration(3.4e-6), duration(200), duration(3900)
    ('3.4\\xa0µs', '3\\xa0min 20\\xa0s', '1\\xa0h 05\\xa0min')
    """
    number = finite(seconds)
    if number is None:
        return DASH
    if number < 59.95:
        number = float(f"{number:.3g}")
        unit, scale = next((u for u in (("s", 1.0), ("ms", 1e-3)) if abs(number) >= u[1]), ("µs", 1e-6))
        return f"{number / scale:.3g}{NBSP}{unit}"
    if number < 3599.5:
        minutes, rest = divmod(round(number), 60)
        return f"{minutes}{NBSP}min {rest:02}{NBSP}s"
    hours, rest = divmod(round(number / 60), 60)
    return f"{hours}{NBSP}h {rest:02}{NBSP}min"


def plain(value: object) -> str:
    """Any value as text: numbers short, what is missing a dash, white space single."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Real):
        return f"{value:.6g}" if isinstance(value, float) else str(value)
    return " ".join(str(value).split()) or DASH
