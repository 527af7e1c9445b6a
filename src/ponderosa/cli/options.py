"""What the commands share: the task as a plain word, `--json`, and the list of names for `--help`."""

import inspect
import shlex
from argparse import ArgumentError
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser, Namespace

import ponderosa
from ponderosa import tasks
from ponderosa.halting.base import Halting
from ponderosa.steps.base import Step
from ponderosa.tasks.base import Task
from ponderosa.training.run import write_json


def named(module: Any, base: type) -> dict[str, type]:
    """The public classes of a module that are finished kinds of `base`, by name."""
    found = ((name, getattr(module, name)) for name in module.__all__)
    return {n: c for n, c in found if inspect.isclass(c) and issubclass(c, base) and not inspect.isabstract(c)}


def task_word(argv: list[str]) -> list[str]:
    """`parity --lr 1e-3` as `--task Parity --lr 1e-3`: a leading word names the task, or is a dotted path.

    `--data_dir`, which other commands have, too, is an option of the task.
    """
    argv = [word.replace("--data_dir", "--task.data_dir", 1) if word.startswith("--data_dir") else word for word in argv]
    if not argv or argv[0].startswith("-"):
        return argv
    names = {name.lower(): name for name in named(tasks, Task)}
    if argv[0].lower() not in names and "." not in argv[0]:
        raise ValueError(f"there is no task {argv[0]!r}: choose one of {', '.join(names)}, or a dotted path of your own")
    return ["--task", names.get(argv[0].lower(), argv[0]), *argv[1:]]


def parse(parser: ArgumentParser, argv: list[str]) -> Namespace:
    """Parse, and say which names there are if one is unknown."""
    try:
        return parser.parse_args(task_word(argv))
    except ArgumentError as error:
        text = str(error)
        if "dot import path" in text or "not a subclass" in text or "class_path" in text:
            text += f"\nknown names: {_names(Halting)}; {_names(Step)}. `--halting.help NAME` lists the options of one"
        raise ValueError(text) from error


def mechanisms() -> str:
    """Every mechanism with its options and their defaults, for `--help`."""
    lines = []
    for base in (Halting, Step):
        lines.append({Halting: "mechanisms (--halting):", Step: "steps (--step):"}[base])
        for name, cls in named(ponderosa, base).items():
            about = (inspect.getdoc(cls) or "").splitlines()[0]
            lines.append(f"  {name:15} {about}")
            options = [
                p for p in inspect.signature(cls).parameters.values() if p.name not in ("size", "input_size", "args", "kwargs")
            ]
            lines.append(f"  {'':15} {' '.join(_option(p) for p in options)}".rstrip())
    return "\n".join(line for line in lines if line.strip())


def _option(parameter: inspect.Parameter) -> str:
    return parameter.name if parameter.default is inspect.Parameter.empty else f"{parameter.name}={parameter.default}"


def _names(base: type) -> str:
    return ", ".join(named(ponderosa, base))


def at_least_one(**options: int) -> None:
    """Refuse counts below 1 before any work is done."""
    for name, value in options.items():
        if value < 1:
            raise ValueError(f"--{name} {value}: at least 1 is needed")


def png(path: str | None) -> Path | None:
    """Where to draw, refused before any work is done if it names another kind of file."""
    if path is not None and Path(path).suffix.lower() != ".png":
        raise ValueError(f"--plot {path}: figures are drawn as PNG, so name a file that ends in .png")
    return None if path is None else Path(path)


def command_line(command: str, argv: list[str]) -> str:
    """The command as the user typed it."""
    return shlex.join(["ponderosa", command, *argv])


def save_json(path: str | None, value: Any) -> None:
    if path:
        write_json(Path(path), value)
