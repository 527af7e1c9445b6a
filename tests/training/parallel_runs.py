"""The runs that test_parallel compares: each halting, 100 batches, in one process or under torchrun."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn

import ponderosa as po
from ponderosa.tasks import Parity
from ponderosa.training.loop import fit
from ponderosa.training.run import RunFolder
from ponderosa.training.settings import Settings

SETTINGS = Settings(
    batches=100, batch_size=16, log_every=1, evaluate_every=50, checkpoint_every=100, evaluate_examples=64, progress=False
)


def uneven(x: Tensor) -> Tensor:
    """Even rows of the global batch stop after one layer, odd ones after three: under torchrun, all of a process's."""
    if dist.is_available() and dist.is_initialized():
        return torch.full((len(x),), 1 + 2 * dist.get_rank())
    return 1 + 2 * (torch.arange(len(x)) % 2)


def gru(halting: po.Halting) -> po.Ponder:
    return po.Ponder(po.GRUStep(6, 12), halting, head=nn.Linear(12, 1), max_steps=4)


def stack(halting: po.Halting) -> po.Ponder:
    layers = [nn.Sequential(nn.Linear(12, 12), nn.Tanh()) for _ in range(4)]
    return po.Ponder(po.Stack(layers, size=12), halting, head=nn.Linear(12, 1), encoder=nn.Linear(6, 12))


HALTINGS = {
    "fixed": lambda: gru(po.Fixed()),
    "act": lambda: gru(po.ACT(bias=-1.0)),
    "pondernet": lambda: gru(po.PonderNet()),
    "lac-example": lambda: gru(po.LAC()),
    "lac-batch": lambda: gru(po.LAC(unit="batch")),
    "lac-reference": lambda: gru(po.LAC(rule="reference")),
    "planned": lambda: gru(po.PlannedDepth(2)),
    "confidence": lambda: gru(po.ConfidenceExit(threshold=0.55)),
    "entropy": lambda: gru(po.EntropyExit(threshold=0.68)),
    "patience": lambda: gru(po.PatienceExit()),
    "any-of": lambda: gru(po.AnyOf([po.LAC(), po.PlannedDepth(3)])),
    "bounded": lambda: gru(po.Bounded(po.ACT(bias=0.0), min_steps=3)),
    "stack-exits": lambda: stack(po.ConfidenceExit(threshold=0.55)),
    "stack-uneven": lambda: stack(po.PlannedDepth(uneven)),
}


def train_all(folder: Path) -> None:
    for name, make in HALTINGS.items():
        torch.manual_seed(0)
        fit(make(), Parity(6), SETTINGS, RunFolder(folder / name))


if __name__ == "__main__":
    train_all(Path(sys.argv[1]))
    torch.distributed.barrier()  # as the command line does: a process that ends before the other aborts
    torch.distributed.destroy_process_group()
