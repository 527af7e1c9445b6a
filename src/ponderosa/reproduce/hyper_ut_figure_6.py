"""Hyper-UT, figure 6: vision transformers that share parameters, halt and mix modules: accuracy against mean layers."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ponderosa.measure.evaluate import evaluate
from ponderosa.reproduce.pictures import made_harder, of_tokens
from ponderosa.reproduce.recipe import Outcome, averaged, expand, kept, plus_minus, results, spread
from ponderosa.training.experiment import load
from ponderosa.training.jobs import Job

shows_part = True
RIVALS = ("ViT", "U-ViT", "U-ViT L")


def jobs(recipe: Mapping[str, Any], root: Path) -> dict[str, list[Job]]:
    return expand(recipe, recipe["runs"], root)


def outcome(recipe: Mapping[str, Any], groups: Mapping[str, list[Job]]) -> Outcome:
    """A row for each model, on the test images and on noisy ones."""
    from ponderosa.measure import plots

    names = recipe["names"]
    found = {names.get(key, key): results(group) for key, group in groups.items() if group}
    noisy = {names.get(key, key): [_noisy(job) for job in group] for key, group in groups.items() if group}
    rows = [
        {
            "model": name, "parameters": f"{runs[0]['parameters']:,}", "accuracy": plus_minus(runs, "accuracy", 4),
            "layers": plus_minus(runs, "mean_steps", 2), "operations": f"{spread(runs, 'operations')[0] / 1e6:.2f}",
            "noisy_accuracy": plus_minus(noisy[name], "accuracy", 4), "noisy_layers": plus_minus(noisy[name], "mean_steps", 2),
        }
        for name, runs in found.items()
    ]  # fmt: skip
    columns = {
        "model": "model", "parameters": "parameters", "accuracy": "accuracy", "layers": "mean layers",
        "operations": "million operations", "noisy_accuracy": "noisy images: accuracy", "noisy_layers": "mean layers",
    }  # fmt: skip
    drawn = {
        key: plots.frontier([{**averaged(runs, "accuracy", "mean_steps"), "name": name} for name, runs in seen.items()])
        for key, seen in (("test", found), ("noisy", noisy))
    }
    if groups["Hyper-UT"]:
        drawn |= of_tokens(groups["Hyper-UT"][0])
    return Outcome(rows, columns, reading(found), drawn, {"noisy": noisy})


def _noisy(job: Job) -> dict[str, Any]:
    return kept(job.folder / "noisy.json", {"examples": job.examples}, partial(_look, job))


def _look(job: Job) -> dict[str, Any]:
    experiment = load(job.folder)
    return evaluate(experiment.net, made_harder(experiment.task, "noise"), examples=job.examples or 10_000).summary()


def reading(found: Mapping[str, list[dict[str, Any]]]) -> str:
    """The paper's claims: the hyper-module closes the gap to ViT, with less work than U-ViT, and helps more than width."""
    rivals = [name for name in RIVALS if name in found]
    if not rivals or "Hyper-UT" not in found:
        return "Not all models are trained."
    models = {name: averaged(runs, "accuracy", "mean_steps", "operations") for name, runs in found.items()}
    hyper = models["Hyper-UT"]
    against = "; ".join(
        f"{name}: {100 * (hyper['accuracy'] - other['accuracy']):+.2f} points in {hyper['mean_steps']:.2f} layers instead of "
        f"{other['mean_steps']:.2f}, and {hyper['operations'] / other['operations']:.2f} times the operations"
        for name, other in ((name, models[name]) for name in rivals)
    )
    seeds = len(found["Hyper-UT"])
    return (
        f"CIFAR-10 in 5 tokens, {hyper['batches']:,} batches, seeds: {seeds}. ViT has its norms before "
        f"each part, the others after. Hyper-UT against {against}. In the paper, on ImageNet, Hyper-UT is as good as ViT, with "
        "less work than U-ViT, and modules help more than width."
    )
