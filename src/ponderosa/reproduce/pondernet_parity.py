"""PonderNet report on parity: where it halts against the prior, the steps saved, and the sweeps over lambda_p and beta."""

from collections.abc import Mapping
from typing import Any

from ponderosa.reproduce.pondernet import Found, columns, figures, jobs, name, points, rows
from ponderosa.reproduce.recipe import Outcome, results, spread
from ponderosa.training.jobs import Job

__all__ = ["jobs", "outcome"]


def outcome(recipe: Mapping[str, Any], groups: Mapping[str, list[Job]]) -> Outcome:
    from ponderosa.measure import plots

    found = {key: results(group) for key, group in groups.items()}
    reported = recipe["paper"]
    parts = loss_parts(found[name(reported)][0]["curve"], reported["beta"])
    drawn = figures(recipe, found) | {"figure-7": plots.losses(parts, ["reconstruction", "regularisation"])}
    return Outcome(rows(recipe, found), columns(recipe), reading(recipe, found), drawn)


def reading(recipe: Mapping[str, Any], found: Found) -> str:
    """What the figures say."""
    sweep = [found[name(point)] for point in points(recipe, "lambda_p")]
    worst = min(run["accuracy"] for runs in sweep for run in runs)
    steps = [spread(runs, "mean_steps")[0] for runs in sweep]
    limit, paper = recipe["common"]["max_steps"], recipe["paper"]
    ours = spread(found[name(paper)], "mean_steps")[0]
    return (
        f"Every lambda_p reaches at least {worst:.4f} with every seed. Mean steps are {min(steps):.2f} to {max(steps):.2f} "
        f"of {limit}; at lambda_p {paper['lambda_p']} they are {ours:.2f}, in the report {paper['mean_steps']:.2f} after many "
        "more batches."
    )


def loss_parts(curve: list[dict[str, float]], beta: float) -> list[dict[str, float]]:
    """The loss split in what the task costs and what the prior costs."""
    prior = [beta * row["kl"] for row in curve]
    return [
        {"batch": row["batch"], "reconstruction": row["loss"] - part, "regularisation": part}
        for row, part in zip(curve, prior, strict=True)
    ]
