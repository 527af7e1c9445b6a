"""Runs opened again: whatever command trained them, and the seeds of one network together."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from ponderosa.adapt import load as load_model
from ponderosa.measure.sweep import knob_of
from ponderosa.ponder import Ponder
from ponderosa.tasks.base import Task
from ponderosa.training.experiment import load, read_calibration
from ponderosa.training.run import RunFolder, read_json
from ponderosa.training.text import TextRun, text_task


@dataclass
class Opened:
    """A trained run: its folder, what it was trained on, and the network."""

    folder: RunFolder
    config: dict[str, Any]
    task: Task
    net: Ponder
    model: Any = None
    """The model of `transformers` that the network runs, if there is one."""

    @property
    def result(self) -> dict[str, Any]:
        """What its own command found."""
        return read_json(self.folder.result) if self.folder.result.exists() else {}

    @property
    def about(self) -> dict[str, Any]:
        """The task by name and options, for a page."""
        task = self.config["task"]
        if isinstance(task, str):
            return {"name": task, "encoder": Path(self.config["encoder"]).name}
        options = {key: value for key, value in task.get("init_args", {}).items() if value is not None}
        return {"name": task["class_path"].rsplit(".", 1)[-1].lower(), **options}


def open_run(folder: Path | str, *, calibrated: bool = True, max_steps: int | None = None) -> Opened:
    """Open a run's folder, as `ponderosa train` or `ponderosa adapt` left it; `calibrated` if it was."""
    run = RunFolder(folder)
    config = yaml.safe_load(run.config.read_text()) if run.config.is_file() else None
    if config is None or not isinstance(config["task"], str):
        experiment = load(folder, max_steps=max_steps, calibrated=calibrated)
        return Opened(run, config or {}, experiment.task, experiment.net)
    known = {field.name for field in fields(TextRun)}
    model = load_model(run.model).eval()
    model.net.max_steps = max_steps or (model.net.max_steps if calibrated else model.net.full_depth)
    found = read_calibration(run)
    if not calibrated and found is not None and found.before is not None:  # the model carries its setting, too
        knob_of(model, found.knob).turn(found.before)
    return Opened(run, config, text_task(TextRun(**{k: v for k, v in config.items() if k in known})), model.net, model)


def open_runs(folders: Sequence[Path | str], *, calibrated: bool = True) -> list[Opened]:
    """Open several runs; one folder named twice would pass for two seeds."""
    paths = [Path(folder).resolve() for folder in folders]
    twice = {str(path) for path in paths if paths.count(path) > 1}
    if twice:
        raise ValueError(f"named twice: {', '.join(sorted(twice))}. A run counts once; seeds are runs of their own")
    return [open_run(folder, calibrated=calibrated) for folder in folders]


def groups(runs: Iterable[Opened]) -> dict[str, list[Opened]]:
    """The seeds of each network together, by a name for each: the mechanism's, or the folder's where that says too little."""
    found = _together(runs, _alike)
    return dict(zip(_names(found), found, strict=True))


def _alike(run: Opened) -> tuple[dict[str, Any], Any]:
    """What the seeds of one network share: all options, and the setting of a knob that was calibrated."""
    calibration = read_calibration(run.folder)
    setting = None if calibration is None else (calibration.knob, calibration.value)
    return {key: value for key, value in run.config.items() if key not in ("seed", "progress")}, setting


def by_task(runs: Iterable[Opened]) -> list[list[Opened]]:
    """The runs on the same task together: only they can be compared."""
    return _together(runs, lambda run: run.about)


def _together(runs: Iterable[Opened], of: Callable[[Opened], Any]) -> list[list[Opened]]:
    """Those that are alike, in the order in which they came."""
    found: list[tuple[Any, list[Opened]]] = []
    for run in runs:
        group = next((group for key, group in found if key == of(run)), None)
        if group is None:
            found.append((of(run), [run]))
        else:
            group.append(run)
    return [group for _, group in found]


def _names(found: Sequence[Sequence[Opened]]) -> list[str]:
    """Of each, the first of its names that no other has."""
    options = [[_mechanism(group[0]), _folder(group[0]), str(group[0].folder.path)] for group in found]
    taken = [name for names in options for name in set(names)]
    return [next((name for name in names if taken.count(name) == 1), names[-1]) for names in options]


def _mechanism(run: Opened) -> str:
    """A network of fixed depth is known by its depth."""
    kind = type(run.net.halting).__name__
    return kind if run.net.halting.adaptive else f"{kind} {run.net.max_steps}"


def _folder(run: Opened) -> str:
    path = run.folder.path.resolve()
    return path.parent.name if path.name.startswith("seed-") else path.name
