"""Rotated and noisy digits: whether a network takes more steps for what is harder, for four mechanisms."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ponderosa.measure.evaluate import Evaluation, evaluate
from ponderosa.measure.probes import expected_steps
from ponderosa.reproduce.pictures import made_harder
from ponderosa.reproduce.recipe import Outcome, averaged, expand, kept, plus_minus, results, spread
from ponderosa.tasks.images.harder import Harder
from ponderosa.training.experiment import load
from ponderosa.training.jobs import Job

shows_part = True
WAYS: tuple[Harder, ...] = ("rotation", "noise")


def jobs(recipe: Mapping[str, Any], root: Path) -> dict[str, list[Job]]:
    return expand(recipe, recipe["runs"], root)


def outcome(recipe: Mapping[str, Any], groups: Mapping[str, list[Job]]) -> Outcome:
    """A row for each mechanism; a picture for each way to make images harder."""
    from ponderosa.measure import plots

    asked = {"examples": recipe["examples"]}
    groups = {recipe["names"].get(key, key): group for key, group in groups.items() if group}
    looks = {
        key: [kept(job.folder / "harder.json", asked, partial(look, job, **asked)) for job in group]
        for key, group in groups.items()
    }
    seen: dict[str, dict[str, Any]] = {
        key: {way: over_seeds([each[way] for each in found]) for way in WAYS} for key, found in looks.items()
    }
    rows = [
        {
            "mechanism": key, "batches": runs[0]["batches"], "accuracy": plus_minus(runs, "accuracy", 4),
            "steps": plus_minus(runs, "mean_steps", 2), **{way: written(seen[key][way]) for way in WAYS},
        }
        for key, runs in ((key, results(group)) for key, group in groups.items())
    ]  # fmt: skip
    columns: dict[str, str] = {
        "mechanism": "mechanism", "batches": "batches", "accuracy": "accuracy",
        "steps": f"mean steps of {recipe['common']['max_steps']}",
        **{way: f"rank correlation of steps with {way}" for way in WAYS},
    }  # fmt: skip
    drawn: dict[str, Any] = {
        way: plots.steps_by_difficulty([{"name": key, **found[way]} for key, found in seen.items()]) for way in WAYS
    }
    return Outcome(rows, columns, reading(seen), drawn, seen)


def look(job: Job, examples: int) -> dict[str, Any]:
    """Steps and accuracy at each level of difficulty, and how steps follow it."""
    experiment = load(job.folder)
    net = experiment.net
    found: dict[str, Any] = {}
    for way in WAYS:
        task = made_harder(experiment.task, way)
        seen = evaluate(net, task, examples=examples)
        steps = expected_steps(net, task, examples)
        seen = Evaluation(seen.score, steps.cpu(), seen.difficulty, seen.max_steps, seen.adaptive)
        found[way] = {"by_difficulty": seen.by_difficulty(), "fairness": seen.fairness()}
    return found


def over_seeds(looks: list[dict[str, Any]]) -> dict[str, Any]:
    """The means over seeds of steps and accuracy at each level, and of the correlation, with its standard deviation."""
    levels = zip(*(each["by_difficulty"] for each in looks), strict=True)
    fair = [each["fairness"] for each in looks]
    mean, deviation = (None, 0.0) if None in fair else spread(looks, "fairness")
    by_difficulty = [averaged([*rows], "accuracy", "steps") for rows in levels]
    return {"by_difficulty": by_difficulty, "fairness": mean, "deviation": deviation}


def written(found: Mapping[str, Any]) -> str | None:
    """ "+0.572 ± 0.010"; one seed has no spread."""
    mean, deviation = found["fairness"], found["deviation"]
    return None if mean is None else f"{mean:+.3f} ± {deviation:.3f}" if deviation else f"{mean:+.3f}"


def reading(seen: Mapping[str, Mapping[str, Any]]) -> str:
    """Who takes more steps for harder images, and how many more."""
    parts = []
    for way in WAYS:
        best = max((found[way]["fairness"] or 0.0, key) for key, found in seen.items())[1]
        easy, *_, hard = seen[best][way]["by_difficulty"]
        parts.append(
            f"With {way} steps follow difficulty best under {best}: from {easy['steps']:.2f} at {easy['difficulty']} to "
            f"{hard['steps']:.2f} at {hard['difficulty']}, rank correlation {written(seen[best][way])}; accuracy "
            f"goes from {easy['accuracy']:.4f} to {hard['accuracy']:.4f}."
        )
    return " ".join(parts)
