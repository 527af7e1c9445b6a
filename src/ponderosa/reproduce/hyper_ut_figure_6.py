"""LAC, table 2: CIFAR-10 in fewer layers, beside baselines that always take as few."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ponderosa.reproduce.recipe import Outcome, expand
from ponderosa.training.jobs import Job


def jobs(recipe: Mapping[str, Any], root: Path) -> dict[str, list[Job]]:
    return expand(recipe, recipe["runs"], root)


def outcome(recipe: Mapping[str, Any], groups: Mapping[str, list[Job]]) -> Outcome:
    raise ValueError("soon")
