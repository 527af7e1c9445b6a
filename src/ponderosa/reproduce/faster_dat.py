"""Faster depth-adaptive transformers: what its tables and figures share, the jobs and the depths they are given."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from ponderosa.depth import Reconstruction
from ponderosa.depth.reconstruction import PENALTY, fitted_losses
from ponderosa.reproduce.recipe import folder_name, spread
from ponderosa.tasks.text import TextClassification
from ponderosa.training.jobs import Job
from ponderosa.training.settings import Settings
from ponderosa.training.text import TextRun, plain_text

FULL = "full depth"
"""The run that others are held against, and in recipes that say so, go on from."""


def jobs(recipe: Mapping[str, Any], root: Path) -> dict[str, list[Job]]:
    """A group for each task and method. Those that go on from the classifier at full depth of their seed wait for it."""
    return {
        f"{task}: {name}": [_job(recipe, task, name, seed, root) for seed in _seeds(recipe, task, name)]
        for task in recipe["tasks"]
        for name in recipe["runs"]
    }


def _seeds(recipe: Mapping[str, Any], task: str, name: str) -> list[int]:
    """The recipe's, or only the first few that a task or a run is given."""
    limits = [options["seeds"] for options in (recipe["tasks"][task], recipe["runs"][name]) if "seeds" in options]
    return recipe["seeds"][: min(limits, default=None)]


def _job(recipe: Mapping[str, Any], task: str, name: str, seed: int, root: Path) -> Job:
    run, settings = text_run(recipe, task, name, seed, root)
    first = None if run.start is None else Path(run.start).parent
    return Job(
        _folder(root, task, name, seed), plain_text(run, settings), batches=1, examples=None, command="adapt", after=first
    )


def _folder(root: Path, task: str, name: str, seed: int) -> Path:
    return root / folder_name(f"{task} {name}") / f"seed-{seed}"


def text_run(recipe: Mapping[str, Any], task: str, name: str, seed: int, root: Path) -> tuple[TextRun, Settings]:
    """What a method of the recipe trains."""
    given = _of_task(recipe, task)
    later = given.pop("going_on", {})
    if recipe.get("goes_on") and name != FULL:
        given |= {**later, "start": str(_folder(root, task, FULL, seed) / "model")}
    given |= {**recipe["runs"][name], **given.pop("runs", {}).get(name, {}), "task": task, "seed": seed}
    for of_recipe in ("seeds", "reconstruction"):
        given.pop(of_recipe, None)
    if given["depths"] == "reconstruction":
        given["estimator"] = str(depths_file(root, task, given.get("penalty", PENALTY), given.get("layers")))
    of_run = {f.name for f in fields(TextRun)}
    run = TextRun(**{k: v for k, v in given.items() if k in of_run})
    return run, Settings(**{k: v for k, v in given.items() if k not in of_run})


def _of_task(recipe: Mapping[str, Any], task: str) -> dict[str, Any]:
    """What all runs of a task have in common; the command line's size wins."""
    common = recipe["common"]
    return {**common, **recipe["tasks"].get(task, {}), **{key: common[key] for key in ("subset",) if key in common}}


def of_same_seeds(runs: list[dict[str, Any]], others: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of the others that have the seeds of these runs."""
    seeds = {run["seed"] for run in runs}
    return [other for other in others if other["seed"] in seeds]


def gain(runs: list[dict[str, Any]], full: list[dict[str, Any]]) -> float:
    """How many points of accuracy runs are above full depth of their seeds, on average."""
    return 100 * (spread(runs, "accuracy")[0] - spread(of_same_seeds(runs, full), "accuracy")[0])


def depths_file(root: Path, task: str, penalty: float, layers: int | None = None) -> Path:
    """Where reconstruction's depths are kept."""
    return root / "depths" / f"{task}-{penalty}{'' if layers is None else f'-{layers}-layers'}.json"


def task_of(recipe: Mapping[str, Any], name: str) -> TextClassification:
    """A task of the recipe, as its runs see it."""
    given = _of_task(recipe, name)
    wanted = {key: given[key] for key in ("encoder", "data_dir", "fold", "subset", "max_tokens") if key in given}
    return TextClassification(name, **wanted)


def prepare(recipe: Mapping[str, Any], root: Path, progress: bool) -> None:
    """Fit reconstruction, once for all seeds and penalties of a task: most of its time goes into its language model."""
    names = [name for name, options in recipe["runs"].items() if options["depths"] == "reconstruction"]
    for task in recipe["tasks"]:
        runs = [text_run(recipe, task, name, recipe["seeds"][0], root)[0] for name in names]
        missing = [run for run in runs if not Path(run.estimator or "").exists()]
        if missing:
            _fit_reconstruction(recipe, task, missing, progress)


def _fit_reconstruction(recipe: Mapping[str, Any], task: str, runs: list[TextRun], progress: bool) -> None:
    """One language model for all: an encoder cut to its first layers has the losses of these."""
    from transformers import AutoModel

    data = task_of(recipe, task)
    encoder = AutoModel.from_pretrained(data.encoder, use_safetensors=True)
    how = {**recipe.get("reconstruction", {}), **recipe["tasks"][task].get("reconstruction", {})}
    losses, vocabulary = fitted_losses(data.texts("train"), data.tokenizer, encoder, **how, progress=progress)
    for run in runs:
        layers, path = run.layers or encoder.config.num_hidden_layers, Path(run.estimator or "")
        path.parent.mkdir(parents=True, exist_ok=True)
        first = {word: each[:layers] for word, each in losses.items()}
        penalty = PENALTY if run.penalty is None else run.penalty
        Reconstruction.of(first, penalty, vocabulary, layers=layers).save(path)
