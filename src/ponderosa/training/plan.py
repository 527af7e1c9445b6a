"""From options to jobs: the same experiment with some options changed, as YAML for a run's folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jsonargparse import Namespace

from ponderosa.training.experiment import experiment_parser
from ponderosa.training.jobs import Job


def job(folder: Path, options: Mapping[str, Any], *, examples: int) -> Job:
    """A job from plain options, as a YAML file would give them; unknown ones are an error now, not after an hour."""
    parser = experiment_parser()
    config = parser.parse_object(dict(options))
    return Job(folder, plain_yaml(config), batches=config.batches, examples=examples)


def plain_yaml(config: Namespace) -> str:
    """The YAML of a parsed experiment."""
    return experiment_parser().dump(config)
