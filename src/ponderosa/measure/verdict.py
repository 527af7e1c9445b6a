"""A comparison in one sentence."""

from collections.abc import Sequence

from ponderosa.measure.figure import Run, baseline, is_fixed
from ponderosa.measure.formatting import NBSP, TIMES, decimal, finite, percent, plain, ratio

TIE = 0.005  # accuracies half a point apart are called near


def verdict(runs: Sequence[Run]) -> str:
    """What the best adaptive run saves, and what it costs in accuracy.

    It is the one with the fewest steps among those within half a point of the highest accuracy; if only the baseline
    is up there, the most accurate one.

    >>> fixed = {"name": "Fixed", "accuracy": 0.99, "mean_steps": 10, "operations": 100}
    >>> verdict([fixed, {"name": "LAC", "accuracy": 0.99, "mean_steps": 3.1, "operations": 31}]).replace(NBSP, " ")
    'LAC answers as accurately as the fixed 10-step network (99.0 % against 99.0 %) in 3.1 steps on average, with 69 % fewer operations.'
    """  # noqa: E501
    known = [run for run in runs if finite(run.get("accuracy")) is not None]
    base = baseline(known)
    others = [run for run in known if not is_fixed(run) and not collapse(run)]
    if not others:
        return _alone(base, known)
    near = [run for run in others if _accuracy(run) >= max(map(_accuracy, known)) - TIE]
    best = min(near, key=_steps) if near else max(others, key=_accuracy)
    return f"{plain(best.get('name'))} {_answers(best, base)}{_spends(best)}{_saves(best, base)}.{_rival(best, base, known)}"


def collapse(run: Run) -> str | None:
    """Why the run does not adapt, if it does not."""
    reason = run.get("collapse")
    return plain(reason) if reason and isinstance(reason, str) else None


def saving(run: Run, reference: Run | None = None) -> float | None:
    """The share of operations saved: against the reference run, or against the run's own full depth."""
    full = reference.get("operations") if reference else None
    share = ratio(run.get("operations"), run.get("full_operations") if full is None else full)
    return None if share is None else 1 - share


def speed_up(run: Run, reference: Run | None = None) -> float | None:
    """How many times sooner an answer comes: than the reference run's, or than at the run's own full depth."""
    full = reference.get("microseconds") if reference else None
    return ratio(run.get("full_microseconds") if full is None else full, run.get("microseconds"))


def _rival(best: Run, base: Run | None, known: Sequence[Run]) -> str:
    """Another fixed network that does as well and answers sooner: then it is the better choice, and must be named."""
    fixed = [run for run in known if is_fixed(run) and run is not base and _accuracy(run) >= _accuracy(best) - TIE]
    sooner = [run for run in fixed if (ratio(best.get("microseconds"), run.get("microseconds")) or 0.0) > 1]
    if not sooner:
        return ""
    rival = max(sooner, key=lambda run: ratio(best.get("microseconds"), run.get("microseconds")) or 0.0)
    times = ratio(best.get("microseconds"), rival.get("microseconds"))
    still = " still" if (speed_up(best, base) or 0.0) >= 1 else ""
    return f" But {_fixed(rival)} is as accurate ({percent(rival.get('accuracy'))}), and {times:.1f}{TIMES} sooner{still}."


def _alone(base: Run | None, known: Sequence[Run]) -> str:
    if base is None and known:
        best = max(known, key=_accuracy)
        return f"{plain(best.get('name'))} reaches {percent(best.get('accuracy'))}, but {collapse(best) or 'does not adapt'}."
    if base is None:
        return "No run gave an accuracy to compare."
    return f"No adaptive run to compare: {_fixed(base)} reaches {percent(base.get('accuracy'))}."


def _answers(run: Run, base: Run | None) -> str:
    accuracy = percent(run.get("accuracy"))
    if base is None:
        return f"reaches {accuracy}"
    return f"answers {_compared(run, base)} {_fixed(base)} ({accuracy} against {percent(base.get('accuracy'))})"


def _compared(run: Run, base: Run) -> str:
    difference = _accuracy(run) - _accuracy(base)
    if percent(run.get("accuracy")) == percent(base.get("accuracy")) or 0 <= difference <= TIE:
        return "as accurately as"
    if difference > 0:
        return "more accurately than"
    return "nearly as accurately as" if difference >= -TIE else "less accurately than"


def _spends(run: Run) -> str:
    return "" if finite(run.get("mean_steps")) is None else f" in {decimal(run.get('mean_steps'))} steps on average"


def _saves(run: Run, base: Run | None) -> str:
    """', with 69 % fewer operations and 2.4 times sooner', or as much of it as is known."""
    share, times = saving(run, base), speed_up(run, base)
    parts = []
    if share is not None:
        parts.append(f"with {abs(share):.0%}".replace("%", f"{NBSP}%") + f" {'fewer' if share >= 0 else 'more'} operations")
    if times:
        parts.append(f"{times:.1f}{TIMES} sooner" if times >= 1 else f"{1 / times:.1f}{TIMES} later")
    than = "" if base else " than at full depth"
    return f", {' and '.join(parts)}{than}" if parts else ""


def _fixed(base: Run) -> str:
    steps = finite(base.get("max_steps") or base.get("mean_steps"))
    return "the fixed network" if steps is None else f"the fixed {steps:g}-step network"


def _accuracy(run: Run) -> float:
    return finite(run.get("accuracy")) or 0.0


def _steps(run: Run) -> float:
    steps = finite(run.get("mean_steps"))
    return float("inf") if steps is None else steps
