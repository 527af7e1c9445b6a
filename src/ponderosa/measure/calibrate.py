"""Calibration: the knob set on held-out data so that a promise holds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ponderosa.measure.batches import Data, right
from ponderosa.measure.guarantee import lost, needed, safe, upper_bound
from ponderosa.measure.sweep import Score, Sweep, knob_of, network, sweep


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
    """Of the network at full depth, as all that is full here: nothing halts (see `measure.sweep.Reference`)."""
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
    instead: str = ""
    """What the setting is, where the promise could not be made."""

    def apply(self, model: Any) -> None:
        """Turn the network's knob to the chosen setting: inference uses it from now on."""
        knob_of(model, self.knob).turn(self.value)

    def record(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return asdict(self)

    def __str__(self) -> str:
        saved = 1 - self.operations / self.full_operations if self.full_operations else 0.0
        spends = f"saves {max(saved, 0):.0%} of the operations" if saved > -0.005 else f"takes {-saved:.0%} more operations"
        setting = f"{self.knob} = {self.value:.6g}"
        if not self.kept:
            return f"{self.promise}: cannot be promised, so {setting}, {self.instead}"
        return (
            f"{self.promise}: {setting} takes {self.mean_steps:.2f} instead of {self.full_steps:.2f} steps and {spends}, "
            f"at accuracy {self.accuracy:.4f} instead of {self.full_accuracy:.4f} "
            f"({self.examples:,} held-out examples){self._as_it_was()}"
        )

    def _as_it_was(self) -> str:
        if self.own_accuracy is None or self.own_steps is None:
            return ""
        weak = ", more than what the promise is held against" if self.own_accuracy > self.full_accuracy else ""
        return f"; as it was: {self.own_steps:.2f} steps at accuracy {self.own_accuracy:.4f}{weak}"

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
        drop: how many points of accuracy may be lost against full depth, where nothing halts; in 100 - 100 * delta of 100
            calibrations it is no more. Where an answer weighs several steps (ACT), full depth is the knob's deepest setting.
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
    if drop is not None and network(model).halting.unit == "batch":
        raise ValueError(
            'unit="batch": the examples of a batch halt together, so how many are lost depends on who is beside them, and '
            'nothing can be promised; choose the knob by operations=, or train with unit="example"'
        )
    swept = sweep(model, data, settings=settings, knob=knob, score=score, progress=progress)
    if operations is not None:
        return within(swept, operations)
    assert drop is not None, "one of the two was given"
    if swept.score.min() < 0 or swept.score.max() > 1:
        low, high = float(swept.score.min()), float(swept.score.max())
        raise ValueError(f"scores from {low:g} to {high:g}: points of accuracy need scores between 0 and 1")
    return dropping(swept, drop, delta)


def dropping(swept: Sweep, drop: float, delta: float) -> Calibration:
    """The shallowest setting that loses at most `drop` points against full depth, with probability 1 - delta."""
    examples, share = swept.score.shape[1], drop / 100
    losses = lost(swept.score, swept.reference.score).tolist()
    passed = safe(losses, examples, share, delta)
    below = f"{drop:g} point{'' if drop == 1 else 's'} below {swept.reference.name}"
    promise = f"at most {below}, with probability {1 - delta:g}"
    if examples < needed(share, delta):
        promise += f" (with {examples:,} examples; {needed(share, delta):,} at least are needed)"
    elif not passed:
        promise += f" (the deepest setting loses {losses[0]:,} of {examples:,} examples)"
    if not passed and swept.setting is not None and swept.own.accuracy > float(swept.score[0].mean()):
        seen = swept.own.accuracy, swept.own.mean_steps, swept.own_operations
        return _calibration(swept, swept.setting, promise, *seen, instead="as it was: deeper, it is right less often")
    if not passed:
        return _chosen(swept, 0, promise, instead="which thinks longest")
    # of those that pass, the cheapest: deeper settings come first, but a knob need not be monotone
    chosen = min(range(passed), key=lambda i: (swept.operations[i], float(swept.steps[i].mean())))
    return _chosen(swept, chosen, promise, kept=True, bound=upper_bound(losses[chosen], examples, delta))


def within(swept: Sweep, operations: float) -> Calibration:
    """The most accurate setting that takes at most so many operations on average; of equals the cheapest."""
    affordable = [i for i, done in enumerate(swept.operations) if done <= operations]
    if not affordable:
        raise ValueError(f"operations={operations:g}: the cheapest setting of {swept.knob} takes {min(swept.operations):,.0f}")
    chosen = max(affordable, key=lambda i: (float(swept.score[i].mean()), -swept.operations[i]))
    return _chosen(swept, chosen, f"at most {operations:,.0f} operations on average", kept=True)


def _chosen(swept: Sweep, i: int, promise: str, **more: Any) -> Calibration:
    seen = float(swept.score[i].mean()), float(swept.steps[i].mean()), swept.operations[i]
    return _calibration(swept, swept.values[i], promise, *seen, **more)


def _calibration(
    swept: Sweep, value: float, promise: str, accuracy: float, steps: float, done: float, kept: bool = False, **more: Any
) -> Calibration:
    full = swept.reference
    return Calibration(
        swept.knob, value, promise, kept, swept.score.shape[1], accuracy, float(full.score.mean()), steps, full.steps,
        done, full.operations, before=swept.setting, own_accuracy=swept.own.accuracy, own_steps=swept.own.mean_steps, **more,
    )  # fmt: skip
