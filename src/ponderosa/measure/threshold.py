"""How sure an exit must be: chosen on validation data, for a stated loss of accuracy."""

from ponderosa.halting.exits import ConfidenceExit
from ponderosa.measure.evaluate import evaluate
from ponderosa.ponder import Ponder
from ponderosa.tasks.base import Task

THRESHOLDS = (0.99, 0.98, 0.95, 0.9, 0.8, 0.7, 0.6)


def choose_threshold(
    net: Ponder, exit: ConfidenceExit, task: Task, *, examples: int, allowed_loss: float = 0.005
) -> list[dict[str, float]]:  # fmt: skip
    """Set the exit's threshold to the lowest whose accuracy on the validation split is at most `allowed_loss` below that of
    the same network without the exit. Gives accuracy and mean depth for every threshold that was tried, 1 (no exit) first.
    """
    tried = []
    for threshold in (1.0, *THRESHOLDS):
        exit.threshold = threshold
        seen = evaluate(net, task, split="validation", examples=examples, batch_size=64)
        tried.append({"threshold": threshold, "accuracy": seen.accuracy, "depth": seen.mean_steps})
    enough = [row["threshold"] for row in tried if row["accuracy"] >= tried[0]["accuracy"] - allowed_loss]
    exit.threshold = min(enough)
    return tried
