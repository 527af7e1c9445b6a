"""PonderNet report on MNIST: where it halts against the prior, the steps saved, and the sweep over lambda_p."""

from collections.abc import Mapping
from typing import Any

from ponderosa.reproduce.pondernet import columns, figures, jobs, rows
from ponderosa.reproduce.recipe import Outcome, results
from ponderosa.training.jobs import Job

__all__ = ["jobs", "outcome"]


def outcome(recipe: Mapping[str, Any], groups: Mapping[str, list[Job]]) -> Outcome:
    found = {key: results(group) for key, group in groups.items()}
    return Outcome(rows(recipe, found), columns(recipe), "", figures(recipe, found))
