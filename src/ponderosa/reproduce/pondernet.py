"""What the PonderNet report's two tasks share: sweeps, where examples halt against the prior, and the steps that this saves."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ponderosa.halting.prior import geometric_prior
from ponderosa.reproduce.recipe import expand, plus_minus, spread
from ponderosa.training.jobs import Job

Found = Mapping[str, list[dict[str, Any]]]
"""The results of each point of a sweep, one for each seed."""


def jobs(recipe: Mapping[str, Any], root: Path) -> dict[str, list[Job]]:
    return expand(recipe, {name(point): {"halting": halting(point)} for point in points(recipe)}, root)


def points(recipe: Mapping[str, Any], sweep: str | None = None) -> list[dict[str, float]]:
    """The settings of one sweep, or of all: a point that two sweeps share is trained once."""
    sweeps = recipe["sweeps"] if sweep is None else {sweep: recipe["sweeps"][sweep]}
    found = [{**options["fixed"], key: value} for key, options in sweeps.items() for value in options["values"]]
    return list({name(point): point for point in found}.values())


def name(point: Mapping[str, float]) -> str:
    return f"lambda_p {point['lambda_p']}, beta {point['beta']}"


def halting(point: Mapping[str, float]) -> dict[str, Any]:
    return {"class_path": "ponderosa.PonderNet", "init_args": {key: point[key] for key in ("lambda_p", "beta")}}


def rows(recipe: Mapping[str, Any], found: Found) -> list[dict[str, Any]]:
    """A row for each point that is trained, the report's mean steps beside the one it gives them for."""
    limit = recipe["common"]["max_steps"]
    return [
        {
            **point, "prior": f"{prior_mean(point['lambda_p'], limit):.2f}",
            "accuracy": plus_minus(runs := found[name(point)], "accuracy", 4),
            "steps": plus_minus(runs, "mean_steps", 2), "batches": ", ".join(f"{run['batches']:,}" for run in runs),
            "paper_steps": f"{recipe['paper']['mean_steps']:.2f}" if name(point) == name(recipe["paper"]) else None,
        }
        for point in points(recipe) if name(point) in found
    ]  # fmt: skip


def prior_mean(lambda_p: float, limit: int) -> float:
    """The steps on average of the prior itself: a network that takes as many has learned nothing about when to halt.

    >>> prior_mean(0.5, 2)
    1.3333333730697632
    """
    return float((geometric_prior(lambda_p, limit) * torch.arange(1, limit + 1)).sum())


def columns(recipe: Mapping[str, Any]) -> dict[str, str]:
    return {
        "lambda_p": "lambda_p", "beta": "beta", "accuracy": "accuracy",
        "steps": f"mean steps of {recipe['common']['max_steps']}", "prior": "the prior's", "batches": "batches (per seed)",
        "paper_steps": "report: mean steps",
    }  # fmt: skip


def figures(recipe: Mapping[str, Any], found: Found) -> dict[str, Any]:
    """Where examples halt against the prior and the steps taken in all, by the numbers of the report's figures; the sweeps."""
    from ponderosa.measure import plots

    limit, named, paper = recipe["common"]["max_steps"], recipe["figures"], recipe["paper"]
    drawn = {}
    for lambda_p, figure in named["distribution"].items():
        for run in found.get(name({**paper, "lambda_p": lambda_p}), [])[:1]:
            prior = geometric_prior(lambda_p, limit).tolist()
            drawn[figure] = plots.distribution_against_prior(run["histogram"], prior, f"lambda_p = {lambda_p}")
    run = found[name(paper)][0]
    total, halted = run["examples"] * limit, run["examples"] * run["mean_steps"]
    title = f"Steps for {run['examples']:,} examples, lambda_p = {paper['lambda_p']}"
    drawn[named["steps"]] = plots.total_steps(halted, total, title)
    for key in recipe["sweeps"]:
        drawn[named.get(key, f"sweep-{key.replace('_', '-')}")] = sweep_figure(recipe, found, key)
    return drawn


def sweep_figure(recipe: Mapping[str, Any], found: Found, key: str) -> Any:
    from ponderosa.measure import plots

    chosen = [point for point in points(recipe, key) if name(point) in found]
    keys = ("accuracy", "mean_steps")
    seen = {k: [spread(found[name(point)], k) for point in chosen] for k in keys}
    means, deviations = ({k: [pair[i] for pair in pairs] for k, pairs in seen.items()} for i in (0, 1))
    return plots.sweep([point[key] for point in chosen], means, deviations, key)
