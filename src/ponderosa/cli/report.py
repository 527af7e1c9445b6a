"""`ponderosa report`: all about trained runs on one page."""

import inspect
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser

from ponderosa.adapt.spec import describe
from ponderosa.cli.options import at_least_one, command_line, save_json
from ponderosa.measure.batches import batches
from ponderosa.measure.environment import environment
from ponderosa.measure.portrait import portrait
from ponderosa.measure.report import write_report
from ponderosa.training.experiment import Help, read_calibration
from ponderosa.training.opened import Opened, by_task, groups, open_runs

ABOUT = """One page about trained runs: the verdict in a sentence, the frontier, training, where the steps go, easy and hard
examples, time by batch size, the exact command and the machine. One HTML file that needs nothing else.

  ponderosa report runs/parity-LAC runs/parity-ACT runs/parity-exit --out report.html

Runs on the same task are compared; runs that differ only in their seed are one line. Several tasks are several parts.
"""


def main(argv: list[str]) -> None:
    parser = ArgumentParser(prog="ponderosa report", description=ABOUT, formatter_class=Help, exit_on_error=False)
    parser.add_argument("runs", nargs="+", help="the runs' folders")
    parser.add_argument(
        "--out", type=str | None, default=None, help="the file, by default report.html in the first run's folder"
    )
    parser.add_argument("--examples", type=int, default=10_000, help="test examples")
    parser.add_argument("--settings", type=int, default=20, help="settings of each knob")
    parser.add_argument("--progress", type=bool, default=True, help="whether to show a progress bar")
    parser.add_argument("--json", type=str | None, default=None, help="write the figures to this file, too")
    options = parser.parse_args(argv)
    at_least_one(examples=options.examples, settings=options.settings)
    parts: list[dict[str, Any]] = []
    for runs in by_task(open_runs(options.runs)):
        named = groups(runs).items()
        shown = [of_seeds(seeds, name, options.examples, options.settings, options.progress) for name, seeds in named]
        parts.append({"task": runs[0].about, "runs": shown})
    found = {
        "title": "What adaptive depth saves", "command": command_line("report", argv), "environment": environment(),
        "parts": parts,
    }  # fmt: skip
    path = write_report(found, options.out or Path(options.runs[0]) / "report.html")
    slim = [{**part, "runs": [{**run, "curve": None} for run in part["runs"]]} for part in parts]  # curves stay in the runs
    save_json(options.json, {**found, "parts": slim})
    print(f"report: {path.resolve()}")


def of_seeds(seeds: list[Opened], name: str, examples: int, settings: int, progress: bool) -> dict[str, Any]:
    """All about one network: what was measured now, and how it was trained."""
    first = seeds[0]
    task = first.task
    data = batches(task, "test", examples, task.at_once)
    seen = portrait([run.net for run in seeds], data, name, task=task, settings=settings, progress=progress)
    calibration = read_calibration(first.folder)
    return seen | {
        "halting": described(first), "curve": first.folder.curve(), "seed": first.config.get("seed"),
        "batches": first.result.get("batches"), "train_seconds": first.result.get("train_seconds"),
        "folder": ", ".join(str(run.folder.path) for run in seeds), "trained_by": first.result.get("command"),
        "note": None if calibration is None else f"calibrated to {calibration}",
    }  # fmt: skip


def described(run: Opened) -> str:
    """ "LAC(alpha=0.8)": what is not as usual."""
    try:
        facts = describe(run.net.halting)
    except ValueError:  # a plan that is a function
        return type(run.net.halting).__name__
    usual = {key: option.default for key, option in inspect.signature(type(run.net.halting)).parameters.items()}
    words = ", ".join(f"{key}={value}" for key, value in facts.items() if key != "class" and value != usual[key])
    return f"{type(run.net.halting).__name__}({words})"
