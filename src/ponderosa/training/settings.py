"""How to train: one dataclass, which the command line turns into options."""

import math
from dataclasses import dataclass
from typing import Literal


@dataclass
class Settings:
    """How to train.

    Args:
        batches: the most batches to train on.
        batch_size: examples per batch, over all devices together.
        lr: the learning rate of Adam.
        schedule: of the learning rate: "constant", or "cosine" down to 0 at the last batch.
        warmup: batches over which the learning rate rises from 0.
        weight_decay: of AdamW; 0 is plain Adam.
        clip: the largest norm of the gradient; 0 does not clip.
        seed: of the initial weights and of the training data.
        log_every: batches between two rows of metrics.csv.
        evaluate_every: batches between two looks at the validation set.
        evaluate_examples: examples of the validation set.
        checkpoint_every: batches between two checkpoints: what a killed run loses at most.
        stop_at: stop as soon as a validation reaches this accuracy; above 1 never does.
        patience: stop after this many validations without a better one; 0 never does.
        devices: processes for data-parallel training on this machine (torchrun decides for itself).
        accelerator: cpu, cuda, mps, or auto.
        precision: of the computation, as Lightning Fabric names it.
        compile: whether to compile the training step: slower to start, faster to run.
        tensorboard: whether to write TensorBoard files beside metrics.csv.
        progress: whether to show a progress bar.
    """

    batches: int = 20_000
    batch_size: int = 128
    lr: float = 1e-3
    schedule: Literal["constant", "cosine"] = "constant"
    warmup: int = 0
    weight_decay: float = 0.0
    clip: float = 1.0
    seed: int = 0
    log_every: int = 100
    evaluate_every: int = 500
    evaluate_examples: int = 5_000
    checkpoint_every: int = 500
    stop_at: float = 2.0
    patience: int = 0
    devices: int = 1
    accelerator: str = "cpu"
    precision: Literal["32-true", "64-true", "bf16-true", "bf16-mixed", "16-mixed"] = "32-true"
    compile: bool = False
    tensorboard: bool = False
    progress: bool = True

    def __post_init__(self) -> None:
        counts = "batches", "batch_size", "log_every", "evaluate_every", "evaluate_examples", "checkpoint_every", "devices"
        for name in counts:
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}: at least 1 is needed")
        for name in ("clip", "patience", "weight_decay", "lr", "warmup"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name}={getattr(self, name)}: it cannot be negative")
        self.check_shares(self.devices)
        for name in ("evaluate_every", "checkpoint_every"):
            if getattr(self, name) % self.log_every:
                raise ValueError(
                    f"{name}={getattr(self, name)} must be a multiple of log_every={self.log_every}, so that a resumed run "
                    "goes on between two rows of the log"
                )

    def rate(self, batch: int) -> float:
        """The learning rate of a batch, counted from 0: it follows from the number alone, so that a run can be resumed.

        >>> [round(Settings(batches=4, lr=1.0, schedule="cosine").rate(n), 3) for n in range(4)]
        [1.0, 0.854, 0.5, 0.146]
        """
        decay = 1.0 if self.schedule == "constant" else (1 + math.cos(math.pi * batch / self.batches)) / 2
        return self.lr * decay * min(1.0, (batch + 1) / (self.warmup + 1))

    def check_shares(self, devices: int) -> None:
        """Every device must have the same number of examples: a batch-level decision waits for all of them."""
        for name in ("batch_size", "evaluate_examples"):
            if getattr(self, name) % devices:
                raise ValueError(
                    f"{name}={getattr(self, name)} cannot be shared evenly by {devices} devices: choose a multiple"
                )
