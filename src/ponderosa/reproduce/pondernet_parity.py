"""PonderNet report on parity: where it halts against the prior, the steps saved, and the sweeps over lambda_p and beta."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ponderosa.halting.prior import geometric_prior
from ponderosa.reproduce.recipe import Outcome, expand, plus_minus, results, spread
from ponderosa.training.jobs import Job

SHOWN = {0.1: "figure-2", 0.5: "figure-4", 0.9: "figure-6"}
"""The report's figures of the halting distribution, by lambda_p."""
REPORTED = 0.3
"""The lambda_p of the report's figures 7, 10 and 11."""


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
    return {"class_path": "ponderosa.PonderNet", "init_args": dict(point)}


def outcome(recipe: Mapping[str, Any], groups: Mapping[str, list[Job]]) -> Outcome:
    found = {key: results(group) for key, group in groups.items()}
    rows = []
    for point in points(recipe):
        runs = found[name(point)]
        reported = point == {"lambda_p": REPORTED, "beta": 0.01}
        rows.append({
            **point, "accuracy": plus_minus(runs, "accuracy", 4), "steps": plus_minus(runs, "mean_steps", 2),
            "batches": ", ".join(f"{run['batches']:,}" for run in runs),
            "paper_steps": f"{recipe['paper']['mean_steps']:.2f}" if reported else None,
        })  # fmt: skip
    limit = recipe["common"]["max_steps"]
    columns = {
        "lambda_p": "lambda_p", "beta": "beta", "accuracy": "accuracy", "steps": f"mean steps of {limit}",
        "batches": "batches (per seed)", "paper_steps": "report: mean steps",
    }  # fmt: skip
    return Outcome(rows, columns, reading(recipe, found), figures(recipe, found))


def reading(recipe: Mapping[str, Any], found: Mapping[str, list[dict[str, Any]]]) -> str:
    """What the figures say."""
    sweep = [found[name(point)] for point in points(recipe, "lambda_p")]
    worst = min(run["accuracy"] for runs in sweep for run in runs)
    steps = [spread(runs, "mean_steps")[0] for runs in sweep]
    ours = spread(found[name({"lambda_p": REPORTED, "beta": 0.01})], "mean_steps")[0]
    limit, theirs = recipe["common"]["max_steps"], recipe["paper"]["mean_steps"]
    return (
        f"Every lambda_p reaches at least {worst:.4f} with every seed. Mean steps are {min(steps):.2f} to {max(steps):.2f} "
        f"of {limit}; at lambda_p {REPORTED} they are {ours:.2f}, in the report {theirs:.2f} after many more batches."
    )


def figures(recipe: Mapping[str, Any], found: Mapping[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """The report's figures by their numbers, and the two sweeps."""
    from ponderosa.measure import plots

    limit = recipe["common"]["max_steps"]
    drawn = {}
    for lambda_p, figure in SHOWN.items():
        run = found[name({"lambda_p": lambda_p, "beta": 0.01})][0]
        prior = geometric_prior(lambda_p, limit).tolist()
        drawn[figure] = plots.distribution_against_prior(run["histogram"], prior, f"lambda_p = {lambda_p}")
    run = found[name({"lambda_p": REPORTED, "beta": 0.01})][0]
    drawn["figure-7"] = plots.losses(loss_parts(run["curve"], beta=0.01), ["reconstruction", "regularisation"])
    total, halted = run["examples"] * limit, run["examples"] * run["mean_steps"]
    drawn["figures-10-11"] = plots.total_steps(halted, total, f"Steps for {run['examples']:,} examples, lambda_p = {REPORTED}")
    for key in recipe["sweeps"]:
        drawn[f"sweep-{key.replace('_', '-')}"] = sweep_figure(recipe, found, key)
    return drawn


def loss_parts(curve: list[dict[str, float]], beta: float) -> list[dict[str, float]]:
    """The loss split in what the task costs and what the prior costs."""
    prior = [beta * row["kl"] for row in curve]
    return [
        {"batch": row["batch"], "reconstruction": row["loss"] - part, "regularisation": part}
        for row, part in zip(curve, prior, strict=True)
    ]


def sweep_figure(recipe: Mapping[str, Any], found: Mapping[str, list[dict[str, Any]]], key: str) -> Any:
    from ponderosa.measure import plots

    chosen = points(recipe, key)
    keys = ("accuracy", "mean_steps")
    seen = {k: [spread(found[name(point)], k) for point in chosen] for k in keys}
    means, deviations = ({k: [pair[i] for pair in pairs] for k, pairs in seen.items()} for i in (0, 1))
    return plots.sweep([point[key] for point in chosen], means, deviations, key)
