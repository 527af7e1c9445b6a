"""The knob of a trained network: what is turned at inference to think longer, or to stop sooner, without training again."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

DECADES = 5


@dataclass(frozen=True)
class Knob:
    """An attribute of a mechanism (or of the network) and the settings it makes sense to give it.

    Args:
        owner: whose attribute it is.
        name: of the attribute.
        deepest: the setting that thinks longest.
        shallowest: the setting that stops soonest.
        crowded: whether settings near the deepest one matter most (probabilities near 1), so that they lie closer there.
        also: further attributes that must be set for the knob to have an effect.

    >>> import ponderosa as po
    >>> po.PatienceExit(patience=2).knob(limit=4).values(20)
    [4, 3, 2, 1]
    """

    owner: Any
    name: str
    deepest: float
    shallowest: float
    crowded: bool = False
    also: Mapping[str, Any] = field(default_factory=dict)

    def values(self, count: int) -> list[float]:
        """At most `count` settings, the deepest first; whole numbers where the ends are."""
        places = [i / max(count - 1, 1) for i in range(count)]
        if self.crowded:
            places = [0.0, *(10 ** (DECADES * (place - 1)) for place in places[1:])]
        found = [self.deepest + (self.shallowest - self.deepest) * place for place in places]
        return list(dict.fromkeys(map(round, found))) if isinstance(self.deepest, int) else found

    @property
    def setting(self) -> Any:
        """As it is; None where the knob has no effect as the others are."""
        effective = all(getattr(self.owner, name) == needed for name, needed in self.also.items())
        return getattr(self.owner, self.name) if effective else None

    def turn(self, value: Any) -> None:
        """Set it for good."""
        for name, setting in {**self.also, self.name: value}.items():
            setattr(self.owner, name, setting)

    @contextmanager
    def turned(self, value: Any) -> Iterator[None]:
        """Set it for a while."""
        before = {name: getattr(self.owner, name) for name in (*self.also, self.name)}
        self.turn(value)
        try:
            yield
        finally:
            for name, setting in before.items():
                setattr(self.owner, name, setting)
