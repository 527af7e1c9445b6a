"""`ponderosa calibrate`: set a trained run's halting so that a promise holds."""

from jsonargparse import ArgumentParser

from ponderosa.cli.options import at_least_one, command_line, save_json
from ponderosa.measure.batches import batches
from ponderosa.measure.calibrate import Calibration, calibrate
from ponderosa.measure.environment import environment
from ponderosa.training.experiment import Help, read_calibration
from ponderosa.training.opened import Opened, open_run
from ponderosa.training.run import write_json

ABOUT = """Set the knob of a trained run's halting on held-out data (the validation set), without training again.

  ponderosa calibrate runs/parity-exit --drop 1.0 --delta 0.05     at most 1 point below full depth, with probability 0.95
  ponderosa calibrate runs/parity-exit --operations 200000         at most so many operations per example on average

"Full depth" takes every step and nothing halts; where an answer weighs several steps (ACT), it is the deepest setting of the
knob. The setting is kept in the run's folder, calibration.json, and every command uses it from then on (and says so);
`--undo true` goes back. Where the promise cannot be made (too few examples), an earlier calibration stays; without one, the run
thinks as long as its knob lets it, or as it did where that is right more often.
"""


def main(argv: list[str]) -> None:
    parser = ArgumentParser(prog="ponderosa calibrate", description=ABOUT, formatter_class=Help, exit_on_error=False)
    parser.add_argument("run", help="the run's folder")
    parser.add_argument("--drop", type=float, default=None, help="points of accuracy that may be lost")
    parser.add_argument("--delta", type=float, default=0.05, help="how often the promise may be broken")
    parser.add_argument("--operations", type=float, default=None, help="per example on average, instead of --drop")
    parser.add_argument("--examples", type=int, default=10_000, help="held-out examples, at most")
    parser.add_argument("--settings", type=int, default=100, help="settings of the knob to choose from")
    parser.add_argument("--knob", type=str | None, default=None, help="max_steps, if not the mechanism's own")
    parser.add_argument("--undo", type=bool, default=False, help="go back to the setting that was there")
    parser.add_argument("--progress", type=bool, default=True, help="whether to show a progress bar")
    parser.add_argument("--json", type=str | None, default=None, help="write the figures to this file, too")
    options = parser.parse_args(argv)
    at_least_one(examples=options.examples, settings=options.settings)
    run = open_run(options.run, calibrated=False)
    task = run.task
    if options.undo:
        undo(run)
        return
    # another seed than that of the validations during training, where examples are made up
    data = batches(task, "validation", options.examples, task.at_once, seed=1)
    found = calibrate(
        run.net, list(data), drop=options.drop, delta=options.delta, operations=options.operations,
        settings=options.settings, knob=options.knob, score=task.score, progress=options.progress,
    )  # fmt: skip
    earlier = read_calibration(run.folder)
    if earlier is not None and earlier.kept and not found.kept:
        print(f"{found.promise}: cannot be promised. The earlier calibration stays: {earlier}")
    else:
        keep(run, found)
    save_json(options.json, {**found.record(), "command": command_line("calibrate", argv), "environment": environment()})


def keep(run: Opened, found: Calibration) -> None:
    """Every command uses the setting from now on."""
    write_json(run.folder.calibration, found.record())
    if run.model is not None:  # so that whoever loads the model, not the run, has the setting, too
        found.apply(run.model)
        run.model.save_pretrained(run.folder.model)
    print(f"{found}\n{run.folder.calibration}")


def undo(run: Opened) -> None:
    """Leave the run as it was before it was calibrated."""
    if not run.folder.calibration.exists():
        raise ValueError(f"{run.folder.path} was not calibrated: there is nothing to undo")
    if run.model is not None:
        run.model.save_pretrained(run.folder.model)
    run.folder.calibration.unlink()
    print(f"{run.folder.path} is as it was before it was calibrated")
