"""`ponderosa compare`: several mechanisms on the same data, side by side."""

import json
from pathlib import Path
from typing import Any

from jsonargparse import Namespace

from ponderosa.cli.options import at_least_one, command_line, mechanisms, parse, save_json
from ponderosa.halting.base import Halting
from ponderosa.measure.cost import microseconds
from ponderosa.measure.environment import environment
from ponderosa.measure.report import write_report
from ponderosa.measure.table import table
from ponderosa.training.experiment import experiment_parser, load
from ponderosa.training.jobs import Job, train_all
from ponderosa.training.plan import plain_yaml
from ponderosa.training.result import TIMED

ABOUT = """Train several mechanisms on the same data and show them side by side: `ponderosa compare parity`.

By default fixed depth, ACT, PonderNet and LAC. Others: --haltings '[Fixed, {class_path: LAC, init_args: {alpha: 0.8}}]'.
Ends with a table and a report (HTML, one file). Runs that were trained already are not trained again.
"""

COLUMNS = {
    "name": "mechanism", "accuracy": "accuracy", "mean_steps": "mean steps", "operations": "operations", "saved": "saved",
    "microseconds": "us/example", "speedup": "speed-up", "batches": "batches", "train_seconds": "training s",
}  # fmt: skip


def main(argv: list[str]) -> None:
    parser = experiment_parser(halting=False, prog="ponderosa compare TASK", description=ABOUT, epilog=mechanisms())
    parser.add_argument(
        "--haltings", type=list[Halting], help="the mechanisms",
        default=[{"class_path": f"ponderosa.{name}"} for name in ("Fixed", "ACT", "PonderNet", "LAC")],
    )  # fmt: skip
    parser.add_argument("--folder", type=str, default="runs/compare", help="the folder of all runs and of the report")
    parser.add_argument("--at_once", type=int, default=2, help="runs trained at the same time, each on one thread")
    parser.add_argument("--examples", type=int, default=10_000, help="test examples")
    parser.add_argument("--json", type=str | None, default=None, help="write all figures to this file, too")
    config = parse(parser, argv)
    at_least_one(examples=config.examples, at_once=config.at_once)
    jobs = comparison(config)
    train_all(jobs, at_once=config.at_once, progress=config.progress)
    found = collect(jobs, config, command_line("compare", argv))
    rows = [shown(run) for run in found["runs"]]
    print(table(rows, COLUMNS))
    for run in found["runs"]:
        if run["collapse"]:
            print(f"warning: {run['name']} {run['collapse']}")
    report = write_report(found, Path(config.folder) / "report.html")
    save_json(config.json, found)
    print(f"\nreport: {report.resolve()}")


def comparison(config: Namespace) -> list[Job]:
    """One job per mechanism, with everything else equal."""
    options = config.clone()
    for name in ("haltings", "folder", "at_once", "examples", "json", "config"):
        options.pop(name, None)
    jobs: list[Job] = []
    for halting in config.haltings:
        options["halting"] = halting
        name = halting.class_path.rsplit(".", 1)[-1]
        twins = sum(job.folder.name.rsplit("-", 1)[0] == name or job.folder.name == name for job in jobs)
        folder = Path(config.folder) / (f"{name}-{twins + 1}" if twins else name)
        jobs.append(Job(folder, plain_yaml(options), batches=config.batches, examples=config.examples))
    return jobs


def collect(jobs: list[Job], config: Namespace, command: str) -> dict[str, Any]:
    """The results of all runs, as the report reads them."""
    runs = [json.loads(job.run.result.read_text()) for job in jobs]
    experiments = [load(job.folder) for job in jobs]
    # again and together: the runs were measured at different moments, while others trained
    times = microseconds([e.net for e in experiments], experiments[0].task.batch("test", 0, TIMED))
    for run, job, halting, (halted, full) in zip(runs, jobs, config.haltings, times, strict=True):
        run |= {"name": job.folder.name, "halting": described(halting), "microseconds": halted, "full_microseconds": full}
    task = {"name": config.task.class_path.rsplit(".", 1)[-1].lower(), **config.task.init_args.as_dict()}
    words = ", ".join(f"{k} {v}" for k, v in task.items() if k != "name")
    title = f"{task['name'].capitalize()} ({words}): what adaptive depth saves"
    return {"title": title, "command": command, "environment": environment(), "task": task, "runs": runs}


def described(halting: Namespace) -> str:
    """ "LAC(alpha=1.0, unit=example)"."""
    options = halting.get("init_args", Namespace()).as_dict()
    words = ", ".join(f"{key}={value}" for key, value in options.items() if value is not None)
    return f"{halting.class_path.rsplit('.', 1)[-1]}({words})"


def shown(run: dict[str, Any]) -> dict[str, Any]:
    """A run as a row of the table."""
    return {
        **run, "accuracy": f"{run['accuracy']:.4f}", "mean_steps": f"{run['mean_steps']:.2f}",
        "operations": f"{run['operations']:,.0f}", "saved": f"{1 - run['operations'] / max(run['full_operations'], 1):.0%}",
        "microseconds": f"{run['microseconds']:.2f}", "speedup": f"{run['full_microseconds'] / run['microseconds']:.2f}x",
        "train_seconds": f"{run['train_seconds']:.0f}",
    }  # fmt: skip
