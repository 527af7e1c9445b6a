"""What the figures of Hyper-UT share: its models on both tasks, figures by hops, and findings that follow from them."""

import math
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ponderosa.measure.probes import dealt, think_longer
from ponderosa.reproduce.recipe import expand, kept
from ponderosa.tasks import CPVR
from ponderosa.training.experiment import load
from ponderosa.training.jobs import Job

Runs = list[dict[str, Any]]
LEARNED = 0.8
"""The accuracy on the hops of training below which a model has not learned them."""
"""The results of one model, one for each seed."""


def jobs(recipe: Mapping[str, Any], root: Path) -> dict[str, list[Job]]:
    """Every model on every task: "plain: UT" and so on, in the recipe's order."""
    runs = {}
    for task, options in recipe["tasks"].items():
        for name in recipe.get("models", recipe["runs"]):
            runs[f"{task}: {name}"] = {**options, **recipe["runs"][name]}
    return expand(recipe, runs, root)


def of_task(found: Mapping[str, Runs], task: str) -> dict[str, Runs]:
    """The results of each model on one task, where there are any."""
    return {name.removeprefix(f"{task}: "): runs for name, runs in found.items() if name.startswith(f"{task}: ") and runs}


def build_task(recipe: Mapping[str, Any], task: str) -> CPVR:
    return CPVR(**recipe["tasks"][task]["task"]["init_args"])


def guessing(task: CPVR, examples: int) -> list[dict[str, Any]]:
    """By hops, the accuracy of the best guess that does not follow a chain."""
    batch = task.batch("test", 0, examples)
    right = {name: (guess == batch.y).float() for name, guess in task.guesses(batch.x).items()}
    rows = []
    for hops in batch.difficulty.unique().tolist():
        accuracy, name = max((float(r[batch.difficulty == hops].mean()), name) for name, r in right.items())
        rows.append({"difficulty": hops, "accuracy": accuracy, "guess": name})
    return rows


def average(run: Mapping[str, Any], hops: Iterable[int], key: str = "accuracy") -> float:
    """The mean over some numbers of hops, each counted alike."""
    rows = {row["difficulty"]: row[key] for row in run["by_difficulty"]}
    return statistics.fmean(rows[number] for number in hops)


class Spread(NamedTuple):
    """A quantity over seeds: its mean, its standard deviation (0 for one seed), and how many seeds there are; none where
    nothing was trained."""

    mean: float
    deviation: float
    seeds: int

    def __format__(self, digits: str) -> str:
        """ "0.95 ± 0.01", with as many digits as asked for; one seed has no spread."""
        spread = f" ± {self.deviation:.{digits}f}" if self.seeds > 1 else ""
        return f"{self.mean:.{digits}f}{spread}"


def over_seeds(values: Iterable[float | None]) -> Spread | None:
    """The spread of the seeds that have a value; None where none has."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return Spread(statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else 0.0, len(known))


def written(spread: Spread | None, digits: int = 2) -> str | None:
    return None if spread is None else format(spread, str(digits))


def finding(claim: str, ours: Iterable[float], theirs: Iterable[float] | float, digits: int = 2) -> str:
    """Whether one quantity is larger than another, beyond what seeds differ by, in words with the figures; a plain number has
    no seeds."""
    a, b = over_seeds(ours), Spread(theirs, 0.0, 0) if isinstance(theirs, float) else over_seeds(theirs)
    if a is None or b is None:
        return f"{claim}: not trained here."
    margin = math.hypot(a.deviation, b.deviation)
    gap = a.mean - b.mean
    holds = "holds" if gap > margin else "does not hold" if -gap > margin else "open, within the spread over seeds"
    alone = ", one seed" if 1 in (a.seeds, b.seeds) else ""
    return f"{claim}: {holds} ({written(a, digits)} against {written(b, digits)}{alone})."


def unlearned(task: str, seen: Mapping[str, Runs], guess: Mapping[str, Any], near: range) -> str:
    """The models that have not learned what they were trained on: what they do beyond it says nothing about depth."""
    found = {name: statistics.fmean(average(run, near) for run in runs) for name, runs in seen.items()}
    models = [f"{name} {accuracy:.2f}" for name, accuracy in found.items() if accuracy < LEARNED]
    if not models:
        return ""
    return (
        f"On {task}, right on less than {LEARNED} of the {near[0]} to {near[-1]} hops of training, where guessing reaches "
        f"{average(guess, near):.2f}: {', '.join(models)}. What is said of these here is about training, not about depth or "
        "sharing."
    )


def probe(job: Job, recipe: Mapping[str, Any]) -> dict[str, Any]:
    """What a trained run does with other limits and with depths dealt at random; kept in its folder."""
    examples = min(recipe["probe_examples"], job.examples)

    def look() -> dict[str, Any]:
        experiment = load(job.folder)
        net, task = experiment.net, experiment.task
        repeats = net.step.max_steps is None
        longer = think_longer(net, task, recipe["longer"], examples=examples) if repeats else []
        by_difficulty = dealt(net, task, examples=examples).by_difficulty() if net.halting.adaptive else None
        return {"longer": longer, "dealt": by_difficulty and {"by_difficulty": by_difficulty}}

    return kept(job.folder / "probes.json", {"limits": recipe["longer"], "examples": examples}, look)
