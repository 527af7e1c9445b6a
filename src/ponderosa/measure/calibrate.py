"""Calibration: the knob set on held-out data so that a promise holds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ponderosa.measure.batches import Data, right
from ponderosa.measure.guarantee import lost, needed, safe, upper_bound
from ponderosa.measure.sweep import Score, Sweep, knob_of, sweep


@dataclass(frozen=True)
class Calibration:
    """A setting of a knob, and what was promised and seen when it was chosen."""

    knob: str
    value: float
    promise: str
    """In words."""
    kept: bool
    """Whether the promise could be made; if not, the setting is the deepest, or the one that was there if that is right more
    often: a network may never have been trained to go so deep."""
    examples: int
    accuracy: float
    full_accuracy: float
    """At the deepest setting."""
    mean_steps: float
    full_steps: float
    operations: float
    full_operations: float
    bound: float | None = None
    """The largest share of examples that may be lost, with the promised probability."""
    before: Any = None
    """The setting that was there; None where the knob had no effect."""
    own_accuracy: float | None = None
    own_steps: float | None = None
    """Both with the setting that was there."""

    def apply(self, model: Any) -> None:
        """Turn the network's knob to the chosen setting: inference uses it from now on."""
        knob_of(model, self.knob).turn(self.value)

    def record(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return asdict(self)

    def __str__(self) -> str:
        saved = 1 - self.operations / self.full_operations if self.full_operations else 0.0
        setting = f"{self.knob} = {self.value:.6g}"
        if not self.kept:
            why = "which thinks longest" if self.mean_steps >= self.full_steps else "as it was: deeper, it is right less often"
            return f"{self.promise}: cannot be promised, so {setting}, {why}"
        return (
            f"{self.promise}: {setting} takes {self.mean_steps:.2f} instead of {self.full_steps:.2f} steps and saves "
            f"{saved:.0%} of the operations, at accuracy {self.accuracy:.4f} instead of {self.full_accuracy:.4f} "
            f"({self.examples:,} held-out examples){self._as_it_was()}"
        )

    def _as_it_was(self) -> str:
        if self.own_accuracy is None or self.own_steps is None:
            return ""
        return f"; as it was: {self.own_steps:.2f} steps at accuracy {self.own_accuracy:.4f}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from ponderosa.measure import html

        return f"<p>{html.text(str(self))}</p>"


def calibrate(
    model: Any, data: Data, *, drop: float | None = None, delta: float = 0.05, operations: float | None = None,
    settings: int = 100, knob: str | None = None, score: Score = right, progress: bool = False,
) -> Calibration:  # fmt: skip
    """Choose the setting of a network's knob on held-out data, and leave the network as it is: `apply` turns it.

    Args:
        model: a `Ponder`, or what `po.adapt` made.
        data: a data loader of examples that were not trained on (see `measure.batches.Data`).
        drop: how many points of accuracy may be lost against full depth, the deepest setting of the knob; in 100 - 100 * delta
            of 100 calibrations it is no more.
        delta: how often the promise may be broken.
        operations: instead of `drop`, how many an example may take on average.
        settings: how many to choose from.
        knob: "max_steps" for the limit on steps, if not the mechanism's own.
        score: how good an answer is; by default 1 for the right class.
        progress: whether to show a progress bar.
    """
    if (drop is None) == (operations is None):
        raise ValueError("say either how many points of accuracy may be lost, drop=1.0, or how many operations may be taken")
    if drop is not None and not 0 < drop < 100:
        raise ValueError(f"drop={drop}: points of accuracy lie between 0 and 100")
    if not 0 < delta < 1:
        raise ValueError(f"delta={delta}: a probability lies between 0 and 1")
    swept = sweep(model, data, settings=settings, knob=knob, score=score, progress=progress)
    return within(swept, operations) if drop is None else dropping(swept, drop, delta)  # type: ignore[arg-type]


def dropping(swept: Sweep, drop: float, delta: float) -> Calibration:
    """The shallowest setting that loses at most `drop` points against the deepest, with probability 1 - delta."""
    examples, share = swept.score.shape[1], drop / 100
    losses = lost(swept.score, swept.score[0]).tolist()
    passed = safe(losses, examples, share, delta)
    promise = f"at most {drop:g} point{'' if drop == 1 else 's'} below full depth, with probability {1 - delta:g}"
    if examples < needed(share, delta):
        promise += f" (with {examples:,} examples; {needed(share, delta):,} at least are needed)"
    # of those that pass, the cheapest: deeper settings come first, but a knob need not be monotone
    chosen = min(range(passed), key=lambda i: (swept.operations[i], float(swept.steps[i].mean())), default=0)
    if not passed and swept.setting is not None and swept.own.accuracy > float(swept.score[0].mean()):
        own = swept.own.accuracy, swept.own.mean_steps, swept.own_operations
        return _calibration(swept, swept.setting, promise, False, None, *own)
    bound = upper_bound(losses[chosen], examples, delta) if passed else None
    return _chosen(swept, chosen, promise, passed > 0, bound)


def within(swept: Sweep, operations: float) -> Calibration:
    """The most accurate setting that takes at most so many operations on average; of equals the cheapest."""
    affordable = [i for i, done in enumerate(swept.operations) if done <= operations]
    if not affordable:
        raise ValueError(f"operations={operations:g}: the cheapest setting of {swept.knob} takes {min(swept.operations):,.0f}")
    chosen = max(affordable, key=lambda i: (float(swept.score[i].mean()), -swept.operations[i]))
    return _chosen(swept, chosen, f"at most {operations:,.0f} operations on average", True, None)


def _chosen(swept: Sweep, i: int, promise: str, kept: bool, bound: float | None) -> Calibration:
    seen = float(swept.score[i].mean()), float(swept.steps[i].mean()), swept.operations[i]
    return _calibration(swept, swept.values[i], promise, kept, bound, *seen)


def _calibration(
    swept: Sweep, value: float, promise: str, kept: bool, bound: float | None, accuracy: float, steps: float, done: float
) -> Calibration:
    return Calibration(
        swept.knob, value, promise, kept, swept.score.shape[1], accuracy, float(swept.score[0].mean()), steps,
        float(swept.steps[0].mean()), done, swept.operations[0], bound, swept.setting, swept.own.accuracy, swept.own.mean_steps,
    )  # fmt: skip
