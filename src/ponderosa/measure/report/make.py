"""A report of models on the examples of a data loader."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ponderosa.measure.batches import Data
from ponderosa.measure.environment import environment
from ponderosa.measure.portrait import portrait
from ponderosa.measure.report.page import write_report
from ponderosa.tasks.base import Task


def report(
    models: Mapping[str, Any], data: Data, path: Path | str, *, title: str = "What adaptive depth saves",
    task: Task | None = None, settings: int = 20, progress: bool = False,
) -> Path:  # fmt: skip
    """Write a page about networks to `path`.

    Args:
        models: a `Ponder` each, or what `po.adapt` made, by name; a list of them for the seeds of one network.
        data: a data loader (see `measure.batches.Data`); all networks see the same batches of it.
        path: the file.
        title: of the page.
        task: says how good an answer is and how an example is shown; without one, the likeliest class is the answer.
        settings: of each knob.
        progress: whether to show a progress bar.
    """
    if not isinstance(models, Mapping) or not models:
        given = "empty" if isinstance(models, Mapping) else type(models).__name__
        raise TypeError(f'models is {given}: networks by name are needed, as report({{"LAC": net}}, ...)')
    data = list(data)
    runs = [
        portrait(model if isinstance(model, list) else [model], data, name, task=task, settings=settings, progress=progress)
        for name, model in models.items()
    ]
    return write_report({"title": title, "environment": environment(), "runs": runs}, path)
