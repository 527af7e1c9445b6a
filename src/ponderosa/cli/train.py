"""`ponderosa train`: one network on one task."""

from pathlib import Path

import torch.distributed as dist

from ponderosa.cli.options import at_least_one, command_line, mechanisms, parse, save_json
from ponderosa.measure.environment import environment
from ponderosa.training.checkpoint import load_checkpoint
from ponderosa.training.experiment import build, claim, experiment_parser
from ponderosa.training.loop import fit
from ponderosa.training.result import result
from ponderosa.training.run import RunFolder

ABOUT = """Train a network on a task: `ponderosa train parity --halting LAC --halting.alpha 0.8`.

The run's folder (--folder, by default runs/TASK-HALTING) holds its config.yaml, metrics.csv, checkpoints and result.json.
The same command goes on with a run that was interrupted, from its last checkpoint, to the very numbers of one that
was not. The result is that of the weights that did best on the validation set.

Images: a CNN's features for a step that takes vectors, patches for a transformer; `digits` needs no files.
  ponderosa train mnist --data_dir FOLDER --step MLPStep --step.hidden_size 32 --halting PonderNet
  ponderosa train cifar10 --data_dir FOLDER --step TransformerStep --step.size 64 --step.heads 4 --patch 8 --halting LAC

On several devices: --devices N, or torchrun --nproc-per-node N -m ponderosa train ...
"""


def main(argv: list[str]) -> None:
    parser = experiment_parser(prog="ponderosa train TASK", description=ABOUT, epilog=mechanisms())
    parser.add_argument("--folder", type=str | None, default=None, help="the run's folder")
    parser.add_argument("--examples", type=int, default=10_000, help="test examples to measure the trained network on")
    parser.add_argument("--json", type=str | None, default=None, help="write the result to this file, too")
    config = parse(parser, argv)
    path, json, examples = config.pop("folder"), config.pop("json"), config.pop("examples")
    config.pop("config", None)
    at_least_one(examples=examples)
    plain = experiment_parser()
    experiment = build(config, plain)
    names = (type(experiment.task).__name__.lower(), type(experiment.net.halting).__name__)
    folder = RunFolder(path or Path("runs") / "-".join(names))
    claim(folder, plain.dump(config))
    progress = fit(experiment.net, experiment.task, experiment.settings, folder)
    if not _first_process():
        return
    load_checkpoint(folder.weights, experiment.net)
    found = result(experiment, folder, progress, examples=examples)
    found |= {"command": command_line("train", argv), "environment": environment()}
    folder.write_result(found)
    save_json(json, found)
    print(
        f"accuracy {found['accuracy']:.4f} in {found['mean_steps']:.2f} of {found['max_steps']} steps on average "
        f"({found['examples']:,} test examples); {found['batches']:,} batches in {found['train_seconds']:.0f} s; {folder.path}"
    )
    if found["collapse"]:
        print(f"warning: {found['collapse']}")


def _first_process() -> bool:
    """Whether this process reports; the group is dissolved, so that no other waits for it."""
    if not dist.is_available() or not dist.is_initialized():
        return True
    rank = dist.get_rank()
    dist.barrier()
    dist.destroy_process_group()
    return rank == 0
