"""LAC, figure 1: how many layers the test images of CIFAR-10 took."""

from collections.abc import Mapping
from typing import Any

from ponderosa.reproduce.lac_cifar import jobs
from ponderosa.reproduce.pictures import by_steps
from ponderosa.reproduce.recipe import Outcome, results, spread
from ponderosa.training.jobs import Job

__all__ = ["jobs", "outcome"]
shows_part = True


def outcome(recipe: Mapping[str, Any], groups: Mapping[str, list[Job]]) -> Outcome:
    from ponderosa.measure import plots

    found = {name: results(group) for name, group in groups.items() if group and "LAC" in name}
    shares = {
        name: [sum(values) / len(runs) for values in zip(*(run["histogram"] for run in runs), strict=True)]
        for name, runs in found.items()
    }
    rows = [
        {"method": name, **{str(n): f"{share:.3f}" for n, share in enumerate(each, 1)}} for name, each in shares.items()
    ]  # fmt: skip
    limit = recipe["common"]["max_steps"]
    means = ", ".join(f"{name} {spread(runs, 'mean_steps')[0]:.2f}" for name, runs in found.items())
    text = f"The share of images that took each number of layers, over all seeds. Layers on average, of {limit}: {means}."
    drawn = {"steps": plots.halting_distribution([{"name": name, "histogram": each} for name, each in shares.items()])}
    drawn |= by_steps(groups[recipe["shown"]][0]) if groups[recipe["shown"]] else {}
    return Outcome(rows, {"method": "method", **{str(n): str(n) for n in range(1, limit + 1)}}, text, drawn)
