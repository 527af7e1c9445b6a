"""An experiment: a task, a step, a halting and how to train, as options, as YAML and as objects."""

import argparse
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
import yaml
from jsonargparse import ArgumentParser, DefaultHelpFormatter, Namespace
from torch import nn

from ponderosa.halting import Fixed
from ponderosa.halting.base import Halting
from ponderosa.measure.calibrate import Calibration
from ponderosa.ponder import Ponder
from ponderosa.sequence import Place, Placed, Positions, ReadOut, SequenceEncoder
from ponderosa.steps import GRUStep
from ponderosa.steps.base import Step
from ponderosa.steps.transformer import TokenStep
from ponderosa.tasks.base import Task
from ponderosa.training.checkpoint import load_checkpoint, replacing
from ponderosa.training.run import RunFolder, read_json
from ponderosa.training.settings import Settings
from ponderosa.vision import ConvEncoder, PatchEncoder


@dataclass
class Experiment:
    """What a config.yaml says, made real."""

    task: Task
    net: Ponder
    settings: Settings


class Help(argparse.RawDescriptionHelpFormatter, DefaultHelpFormatter):
    """Help that keeps the lines of its text and shows defaults."""


def experiment_parser(halting: bool = True, **options: Any) -> ArgumentParser:
    """The parser of an experiment: classes by name or dotted path, their arguments as options."""
    parser = ArgumentParser(formatter_class=Help, exit_on_error=False, **options)
    parser.add_argument("--config", action="config", help="a YAML file with any of these options, such as a run's config.yaml")
    parser.add_argument("--task", type=Task, required=True, help="what is learned: a name, or your own's dotted path")
    if halting:
        parser.add_argument(
            "--halting",
            type=Halting,
            default={"class_path": _path(Fixed)},
            help="the mechanism, likewise",
        )
    parser.add_argument(
        "--step", type=Step, default={"class_path": _path(GRUStep), "init_args": {"hidden_size": 128}},
        help="what is repeated: a step's name, or your own's dotted path",
    )  # fmt: skip
    parser.add_argument("--max_steps", type=int, default=10, help="the most steps an example may take")
    parser.add_argument("--positions", type=Positions, default="learned", help="of the tokens, where the step takes tokens")
    parser.add_argument(
        "--read_out", type=Place, default="query",
        help="what answers, where the step takes tokens: the first (of an image, a class token) or the mean",
    )  # fmt: skip
    parser.add_argument("--patch", type=int, default=4, help="the side of a patch, where a transformer sees images")
    parser.add_class_arguments(Settings)
    parser.link_arguments("task", "step.init_args.input_size", compute_fn=lambda task: task.input_size, apply_on="instantiate")
    return parser


def build(config: Namespace, parser: ArgumentParser) -> Experiment:
    """The objects that a parsed configuration describes, with the initial weights of its seed."""
    torch.manual_seed(config.seed)
    made = parser.instantiate(config)
    settings = Settings(**{f.name: made[f.name] for f in fields(Settings)})
    if made.step.size is None:
        raise ValueError(f"{type(made.step).__name__} does not say how large its state is: give it an attribute `size`")
    encoder, head = ends(made.task, made.step, made)
    net = Ponder(made.step, made.halting, head=head, max_steps=made.max_steps, encoder=encoder)
    return Experiment(made.task, net, settings)


def ends(task: Task, step: Step, options: Namespace) -> tuple[nn.Module | None, nn.Module]:
    """What stands in front of the first step and behind the last: vectors need no encoder, tokens and images do."""
    assert step.size is not None
    encoder: nn.Module | None = None
    if task.tokens is not None:
        encoder = SequenceEncoder(task.tokens, task.length, step.size, positions=options.positions)
    elif task.image is not None and isinstance(step, TokenStep):
        class_token = options.read_out == "query"
        encoder = PatchEncoder(task.image, options.patch, step.size, class_token=class_token, positions=options.positions)
    elif task.image is not None:
        encoder = ConvEncoder(task.image, task.input_size)
    if isinstance(encoder, Placed):
        return encoder, ReadOut(step.size, task.output_size, place=options.read_out)
    return encoder, nn.Linear(step.size, task.output_size)


def load(folder: Path | str, *, max_steps: int | None = None, calibrated: bool = True) -> Experiment:
    """The experiment of a run's folder, with the weights that did best on the validation set, calibrated if it was.

    `max_steps` lets it think longer than in training, or shorter.
    """
    run = RunFolder(folder)
    if not run.config.is_file():
        raise FileNotFoundError(f"{run.path} is not a run: it has no config.yaml. `ponderosa train` makes one")
    parser = experiment_parser()
    experiment = build(parser.parse_path(run.config), parser)
    load_checkpoint(run.weights, experiment.net)
    if calibrated and (found := read_calibration(run)) is not None:
        found.apply(experiment.net)
    if max_steps is not None:
        experiment.net.max_steps = max_steps
    return experiment


def read_calibration(run: RunFolder) -> Calibration | None:
    """What the run was calibrated to, if it was."""
    return Calibration(**read_json(run.calibration)) if run.calibration.exists() else None


def claim(folder: RunFolder, config: str) -> None:
    """Make the folder this configuration's, or see that it already is: a run is never mixed with another."""
    if not folder.config.exists():
        with replacing(folder.config) as temporary:
            temporary.write_text(config)
        return
    ours, theirs = (_complete(text) for text in (config, folder.config.read_text()))
    differing = [key for key in ours if key != "progress" and ours[key] != theirs.get(key)]
    if differing:
        said = "; ".join(f"{key} is {ours[key]} here, {theirs.get(key)} there" for key in differing)
        raise ValueError(f"{folder.path} holds a run with other options: {said}. Choose another --folder, or remove this one")


def _path(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _complete(config: str) -> dict[str, Any]:
    """What a configuration says; in an experiment's, options that are newer than the run have their defaults.

    That of a text run names its task in a word, and is taken as it stands.
    """
    said = yaml.safe_load(config)
    if isinstance(said["task"], str):
        return said
    parser = experiment_parser()
    return yaml.safe_load(parser.dump(parser.parse_string(config)))
