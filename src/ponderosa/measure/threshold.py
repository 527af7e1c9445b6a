"""How sure an exit must be: chosen on validation data, for a stated loss of accuracy."""

import math

from ponderosa.halting.exits import ConfidenceExit
from ponderosa.measure.evaluate import evaluate
from ponderosa.measure.guarantee import lost
from ponderosa.ponder import Ponder
from ponderosa.tasks.base import Task

THRESHOLDS = (0.99, 0.98, 0.97, 0.96, 0.95, 0.93, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6)


def choose_threshold(
    net: Ponder, exit: ConfidenceExit, task: Task, *, examples: int, allowed_loss: float = 0.005
) -> list[dict[str, float]]:  # fmt: skip
    """Set the exit's threshold to the lowest that, like all above it, turns at most `allowed_loss` of the validation examples
    from right to wrong. (Answers that turn right would hide that: on a few hundred examples they are chance.) Gives
    accuracy, that loss and mean depth for every threshold that was tried, 1 (no exit) first.
    """
    if not allowed_loss >= 0:
        raise ValueError(f"allowed_loss={allowed_loss}: a share of the validation examples is needed, 0 or more")
    tried, whole = [], None
    for threshold in (1.0, *THRESHOLDS):
        exit.threshold = math.inf if threshold == 1.0 else threshold  # rounded, a probability may be 1
        seen = evaluate(net, task, split="validation", examples=examples, batch_size=64)
        whole = seen.score if whole is None else whole
        loss = int(lost(seen.score, whole)) / len(whole)
        tried.append({"threshold": threshold, "accuracy": seen.accuracy, "loss": loss, "depth": seen.mean_steps})
    too_much = (i for i, row in enumerate(tried) if row["loss"] > allowed_loss)
    exit.threshold = tried[next(too_much, len(tried)) - 1]["threshold"]
    return tried
