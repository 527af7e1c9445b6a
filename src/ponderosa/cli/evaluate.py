"""`ponderosa evaluate`: what a trained run does on the test set."""

from typing import Any

from jsonargparse import ArgumentParser

from ponderosa.cli.options import at_least_one, save_json
from ponderosa.measure.environment import environment
from ponderosa.measure.probes import think_longer
from ponderosa.measure.table import table
from ponderosa.training.experiment import Help, read_calibration
from ponderosa.training.opened import open_run
from ponderosa.training.result import measure

ABOUT = """Accuracy, steps, operations and time of a trained run on the test set, by difficulty.

  ponderosa evaluate runs/parity-LAC --examples 100000
  ponderosa evaluate runs/cpvr-ACT --max_steps 16            think longer than in training
  ponderosa evaluate runs/cpvr-ACT --limits [4,8,16,32]      accuracy against the limit on steps
"""


def main(argv: list[str]) -> None:
    parser = ArgumentParser(prog="ponderosa evaluate", description=ABOUT, formatter_class=Help, exit_on_error=False)
    parser.add_argument("run", help="the run's folder")
    parser.add_argument("--examples", type=int, default=10_000, help="test examples")
    parser.add_argument("--max_steps", type=int | None, default=None, help="the most steps, if not those of training")
    parser.add_argument("--limits", type=list[int] | None, default=None, help="also show accuracy with each of these limits")
    parser.add_argument("--batch_size", type=int | None, default=None, help="examples at once")
    parser.add_argument("--json", type=str | None, default=None, help="write the figures to this file, too")
    options = parser.parse_args(argv)
    at_least_one(examples=options.examples, batch_size=options.batch_size or 1)
    run = open_run(options.run, max_steps=options.max_steps)
    figures = measure(run, examples=options.examples, batch_size=options.batch_size or run.task.at_once)
    if options.limits:
        figures["longer"] = think_longer(run.net, run.task, options.limits, examples=options.examples)
    calibration = read_calibration(run.folder)
    if calibration is not None:
        print(f"calibrated          {calibration}")
        figures["calibration"] = calibration.record()
    print(f"accuracy            {figures['accuracy']:.4f}  on {figures['examples']:,} test examples")
    print(f"mean steps          {figures['mean_steps']:.2f}  of {figures['max_steps']}")
    print(f"operations          {figures['operations']:,.0f}  of {figures['full_operations']:,.0f} at full depth, per example")
    print(f"time                {figures['microseconds']:.2f} us  of {figures['full_microseconds']:.2f} us, per example")
    columns = {"difficulty": "difficulty", "examples": "examples", "accuracy": "accuracy", "steps": "mean steps"}
    if figures["by_difficulty"]:
        print(f"\n{table(figures['by_difficulty'], columns)}")
    if options.limits:
        print(f"\naccuracy with other limits on steps, in all and by difficulty:\n\n{by_limit(figures['longer'])}")
    if figures["collapse"]:
        print(f"\nwarning: {figures['collapse']}")
    save_json(options.json, {**figures, "run": options.run, "environment": environment()})


def by_limit(longer: list[dict[str, Any]]) -> str:
    """A line for each limit."""
    rows = [row | {str(level["difficulty"]): level["accuracy"] for level in row["by_difficulty"]} for row in longer]
    levels = {str(level["difficulty"]): str(level["difficulty"]) for level in longer[0]["by_difficulty"]}
    return table(rows, {"max_steps": "limit", "mean_steps": "mean steps", "accuracy": "all"} | levels)
