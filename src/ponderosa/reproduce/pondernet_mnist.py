"""PonderNet report on MNIST: where it halts against the prior, the steps saved, the sweep over lambda_p, and fewer steps."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ponderosa.measure.evaluate import evaluate
from ponderosa.reproduce.pictures import by_steps
from ponderosa.reproduce.pondernet import Found, columns, figures, jobs, name, points, rows
from ponderosa.reproduce.recipe import Outcome, kept, results, spread
from ponderosa.tasks.base import Split
from ponderosa.training.experiment import load
from ponderosa.training.jobs import Job

__all__ = ["jobs", "outcome"]
shows_part = True


def outcome(recipe: Mapping[str, Any], groups: Mapping[str, list[Job]]) -> Outcome:
    found = {key: results(group) for key, group in groups.items() if group}
    if name(recipe["paper"]) not in found:
        raise ValueError(f"{name(recipe['paper'])}, the report's own point, is not trained yet: leave --train out")
    trained = [point for point in points(recipe) if name(point) in found]
    at = [operating_point | point for point in trained for operating_point in operating_points(recipe, groups, point)]
    drawn = figures(recipe, found) | by_steps(groups[name(recipe["paper"])][0])
    return Outcome(rows(recipe, found), columns(recipe), reading(recipe, found, at), drawn, {"thresholds": at})


def operating_points(
    recipe: Mapping[str, Any], groups: Mapping[str, list[Job]], point: Mapping[str, float]
) -> list[dict[str, Any]]:
    """What the first seed of a point does where the cumulative probability decides, for each threshold."""
    job, asked = groups[name(point)][0], recipe["thresholds"]
    return kept(job.folder / "thresholds.json", {"thresholds": asked}, partial(at_thresholds, job, asked))["found"]


def at_thresholds(job: Job, thresholds: Sequence[float]) -> dict[str, Any]:
    """Accuracy and mean steps, on validation and test images."""
    experiment = load(job.folder)
    halting: Any = experiment.net.halting
    halting.evaluation = "threshold"
    splits: tuple[Split, ...] = ("validation", "test")
    found = []
    for threshold in thresholds:
        halting.threshold = threshold
        row: dict[str, Any] = {"threshold": threshold}
        for split in splits:
            seen = evaluate(experiment.net, experiment.task, split=split)
            row |= {f"{split}_accuracy": seen.accuracy, f"{split}_steps": seen.mean_steps}
        found.append(row)
    return {"found": found}


def reading(recipe: Mapping[str, Any], found: Found, at: Sequence[Mapping[str, Any]]) -> str:
    """What the figures say: the report's claims, and the fewest steps that the validation images allow."""
    paper, limit = recipe["paper"], recipe["common"]["max_steps"]
    worst, where = min((run["accuracy"], key) for key, runs in found.items() for run in runs)
    ours = spread(found[name(paper)], "mean_steps")[0]
    good = [point for point in at if point["validation_accuracy"] >= recipe["target"]]
    best = min(good, key=lambda point: (point["validation_steps"], -point["validation_accuracy"]), default=None)
    fewest = f"No threshold reaches {recipe['target']} on the validation images."
    if best is not None:
        fewest = (
            f"The fewest steps with at least {recipe['target']} on the validation images: lambda_p {best['lambda_p']}, halting "
            f"where the cumulative probability reaches {best['threshold']}; on the test images that is "
            f"{best['test_accuracy']:.4f} in {best['test_steps']:.2f} steps."
        )
    return (
        f"The lowest accuracy is {worst:.4f}, at {where}. At lambda_p {paper['lambda_p']} an image takes {ours:.2f} of {limit} "
        f"steps on average, in the report {paper['mean_steps']:.2f}. {fewest}"
    )
