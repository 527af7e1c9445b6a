"""A recipe: a YAML file that says what to train, how often, and what the paper found."""

import json
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from ponderosa.training.jobs import Job
from ponderosa.training.plan import job
from ponderosa.training.run import write_json


@dataclass
class Outcome:
    """What a reproduction shows: rows with our figures and the paper's, a plain-word reading, and pictures."""

    rows: list[dict[str, Any]]
    columns: dict[str, str]
    text: str
    figures: dict[str, Any]
    """matplotlib figures by file name."""
    data: dict[str, Any] = field(default_factory=dict)
    """Further numbers that the pictures show, for the result file."""
    pages: dict[str, str] = field(default_factory=dict)
    """HTML by file name."""


def read_recipe(name: str) -> dict[str, Any]:
    """A recipe from the files that come with the package, or from a file of one's own (a path that ends in .yaml).

    One that `extends` another has all that it does not say from there, and shares its trained runs.
    """
    own = Path(name)
    file = own if own.suffix == ".yaml" else resources.files("ponderosa.recipes").joinpath(f"{name}.yaml")
    if not file.is_file():
        raise FileNotFoundError(
            f"there is no recipe {name}: give the path of a .yaml file, or a name that comes with the package"
        )
    recipe = yaml.safe_load(file.read_text())
    base = recipe.pop("extends", None)
    return recipe if base is None else {"folder": base, **read_recipe(base), **recipe}


def capped(recipe: Any, batches: int) -> Any:
    """The recipe with this many batches at most, wherever it says how many.

    >>> capped({"common": {"batches": 90, "lr": 0.1}, "runs": {"LAC": {"batches": 7}}}, 10)
    {'common': {'batches': 10, 'lr': 0.1}, 'runs': {'LAC': {'batches': 7}}}
    """
    if not isinstance(recipe, Mapping):
        return recipe
    return {key: min(value, batches) if key == "batches" else capped(value, batches) for key, value in recipe.items()}


def expand(recipe: Mapping[str, Any], runs: Mapping[str, Mapping[str, Any]], root: Path) -> dict[str, list[Job]]:
    """The jobs of each run, one per seed."""
    return {
        name: [_job(recipe, options, seed, root / folder_name(name)) for seed in recipe["seeds"]]
        for name, options in runs.items()
    }


def _job(recipe: Mapping[str, Any], options: Mapping[str, Any], seed: int, folder: Path) -> Job:
    asked = {**recipe["common"], **options, "seed": seed}
    data_dir = asked.pop("data_dir", None)
    if data_dir is not None:  # the folder is the task's own option
        asked["task"] = {**asked["task"], "init_args": {**asked["task"].get("init_args", {}), "data_dir": data_dir}}
    return job(folder / f"seed-{seed}", asked, examples=recipe["examples"])


def folder_name(name: str) -> str:
    """A run's name as a folder's: letters, digits, points and single dashes."""
    return "-".join("".join(c if c.isalnum() or c == "." else " " for c in name).split())


def results(jobs: Iterable[Job]) -> list[dict[str, Any]]:
    return [json.loads(job.run.result.read_text()) for job in jobs]


def kept(path: Path, asked: dict[str, Any], look: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a look at a trained run found: done once for what is `asked`, and kept in a file of the run's folder."""
    if path.exists() and (found := json.loads(path.read_text()))["asked"] == asked:
        return found
    found = {"asked": asked, **look()}
    write_json(path, found)
    return found


def seed_by_seed(groups: Mapping[str, list[Job]]) -> list[Job]:
    """All jobs in an order that shows everything early: the first seed of every run before the second of any."""
    most = max(map(len, groups.values()), default=0)
    return [group[seed] for seed in range(most) for group in groups.values() if seed < len(group)]


def spread(found: list[dict[str, Any]], key: str) -> tuple[float, float]:
    """The mean and the standard deviation over seeds (0 for one seed)."""
    values = [run[key] for run in found]
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def averaged(found: list[dict[str, Any]], *keys: str) -> dict[str, Any]:
    """The first run, with the mean over seeds of these figures."""
    return {**found[0], **{key: spread(found, key)[0] for key in keys}}


def plus_minus(found: list[dict[str, Any]], key: str, digits: int) -> str:
    """ "0.9991 ± 0.0004", or "0.9991" for one seed."""
    mean, deviation = spread(found, key)
    return f"{mean:.{digits}f} ± {deviation:.{digits}f}" if len(found) > 1 else f"{mean:.{digits}f}"
