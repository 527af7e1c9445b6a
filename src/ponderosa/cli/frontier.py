"""`ponderosa frontier`: accuracy against what it costs, over all settings of trained runs' halting."""

from typing import Any

from jsonargparse import ArgumentParser

from ponderosa.cli.options import at_least_one, command_line, png, save_json
from ponderosa.measure.batches import batches
from ponderosa.measure.environment import environment
from ponderosa.measure.figure import save_png
from ponderosa.measure.frontier import frontier
from ponderosa.measure.plots import frontier as draw
from ponderosa.training.experiment import Help
from ponderosa.training.opened import by_task, groups, open_runs

ABOUT = """Accuracy against mean steps, operations and time: the halting's knob is swept at inference, nothing is trained again.

  ponderosa frontier runs/parity-LAC runs/parity-ACT --plot frontier.png

The knob is the mechanism's own (LAC's alpha, the cumulative threshold of ACT and PonderNet, an exit's confidence or patience, a
planned depth's shift), or with --knob max_steps the limit on steps. Runs that differ only in their seed are one line.
"""

SHOWN = {
    "task": "task", "name": "network", "accuracy": "accuracy", "mean_steps": "mean steps", "saved": "operations saved",
    "knob": "knob", "steps": "steps by it", "within": "fewest steps within a point", "area": "area",
}  # fmt: skip


def main(argv: list[str]) -> None:
    parser = ArgumentParser(prog="ponderosa frontier", description=ABOUT, formatter_class=Help, exit_on_error=False)
    parser.add_argument("runs", nargs="+", help="the runs' folders")
    parser.add_argument("--examples", type=int, default=10_000, help="test examples")
    parser.add_argument("--settings", type=int, default=20, help="settings of the knob")
    parser.add_argument("--knob", type=str | None, default=None, help="max_steps, if not the mechanism's own")
    parser.add_argument("--plot", type=str | None, default=None, help="draw it into this file (PNG)")
    parser.add_argument("--progress", type=bool, default=True, help="whether to show a progress bar")
    parser.add_argument("--json", type=str | None, default=None, help="write the figures to this file, too")
    options = parser.parse_args(argv)
    at_least_one(examples=options.examples, settings=options.settings)
    plot = png(options.plot)
    found: list[dict[str, Any]] = []
    tasks = by_task(open_runs(options.runs, calibrated=False))
    for number, runs in enumerate(tasks, start=1):
        task = runs[0].task
        data = list(batches(task, "test", options.examples, task.at_once))
        for name, seeds in groups(runs).items():
            front = frontier(
                [run.net for run in seeds], data, name=name, settings=options.settings, knob=options.knob,
                score=task.score, time=True, progress=options.progress,
            )  # fmt: skip
            print(f"{front!r}\n")
            found.append(front.run() | {"task": runs[0].about})
        if plot is not None:  # tasks cannot be compared: each has its own
            shown = draw([run for run in found if run["task"] == runs[0].about])
            print(save_png(shown, plot if len(tasks) == 1 else plot.with_stem(f"{plot.stem}-{number}-{runs[0].about['name']}")))
    save_json(
        options.json,
        {"command": command_line("frontier", argv), "environment": environment(), "runs": found},
    )


def shown(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each network as it is, and how far its knob reaches, for the documentation."""
    return [
        {
            "task": run["task"]["name"], "name": run["name"], "accuracy": f"{run['accuracy']:.4f}",
            "mean_steps": f"{run['mean_steps']:.2f} of {run['max_steps']}", "saved": f"{run['saved']:.0%}", **_reach(run),
        }
        for run in runs
    ]  # fmt: skip


def _reach(run: dict[str, Any]) -> dict[str, Any]:
    """How far a knob reaches; a fixed depth has none."""
    front, points = run["frontier"], run["frontier"]["points"]
    if len(points) == 1:
        return {}
    steps = [point["mean_steps"] for point in points]
    near = [point["mean_steps"] for point in points if point["accuracy"] >= run["accuracy"] - 0.01]
    return {
        "knob": front["knob"], "steps": f"{max(steps):.2f} to {min(steps):.2f}", "within": f"{min(near):.2f}",
        "area": f"{front['area']:.3f}",
    }  # fmt: skip
