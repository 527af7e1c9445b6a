"""The one training loop, on Lightning Fabric, for every task, every halting and every network."""

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies import DDPStrategy, Strategy
from torch import Tensor

from ponderosa.keys import mix
from ponderosa.measure.batches import share, to_like
from ponderosa.measure.evaluate import Evaluation
from ponderosa.ponder import Ponder
from ponderosa.tasks.base import Task
from ponderosa.training.checkpoint import Progress, load_checkpoint, save_checkpoint
from ponderosa.training.objective import Learner, Objective
from ponderosa.training.run import MetricsLog, RunFolder
from ponderosa.training.settings import Settings


def fit(net: Ponder, task: Task, settings: Settings, folder: RunFolder) -> Progress:
    """Train `net` on `task`, going on from the folder's last checkpoint if there is one."""
    return train(Objective(net, task), settings, folder)


def train(learner: Learner, settings: Settings, folder: RunFolder) -> Progress:
    """The same for anything that can tell the loss of a batch and what it is worth."""
    first = int(os.environ.get("LOCAL_RANK", 0)) == 0  # of the processes of a data-parallel run
    with folder.alone() if first else contextlib.nullcontext():
        return Trainer(learner, settings, folder).run()


class Trainer:
    """One run: the objects that live as long as it does."""

    def __init__(self, learner: Learner, settings: Settings, folder: RunFolder):
        self.learner, self.net, self.task = learner, learner.net, learner.task
        self.settings, self.folder = settings, folder
        self.fabric = _fabric(settings, learner.some_unused, folder)
        self.fabric.launch()
        settings.check_shares(self.fabric.world_size)
        optimizer = torch.optim.AdamW(self.net.parameters(), lr=settings.lr, weight_decay=settings.weight_decay, fused=True)
        self.names = learner.names()
        if settings.compile:
            learner.compile()
        self.objective, self.optimizer = self.fabric.setup(learner, optimizer)
        self.progress = load_checkpoint(folder.last, self.net, self.optimizer) if folder.last.exists() else Progress()
        if self.progress.batch:
            self._say(f"resuming {folder.path} after batch {self.progress.batch}")
        self.log = self._open_log(folder.metrics, ["batch", *self.names, "validation_accuracy", "validation_steps", "seconds"])
        self.by_difficulty = self._open_log(folder.by_difficulty, ["batch", "difficulty", "examples", "accuracy", "steps"])

    def run(self) -> Progress:
        settings, progress = self.settings, self.progress
        self.net.train()
        sums, started = None, time.perf_counter() - progress.seconds
        with self._bar() as bar:
            while not progress.finished:
                values = self.train_batch(progress.batch)
                sums = values if sums is None else sums + values
                progress.batch += 1
                bar.update()
                if progress.batch % settings.log_every and progress.batch < settings.batches:
                    continue
                count = progress.batch % settings.log_every or settings.log_every
                row = dict(zip(self.names, self._mean(sums / count), strict=True))
                sums = None
                if progress.batch % settings.evaluate_every == 0 or progress.batch >= settings.batches:
                    row |= self.validate()
                progress.seconds = time.perf_counter() - started
                progress.finished = progress.finished or progress.batch >= settings.batches
                bar.set_postfix({k: f"{row[k]:.4g}" for k in ("loss", "accuracy", "steps")})
                self._record(row)
        return progress

    def train_batch(self, index: int) -> Tensor:
        """One optimiser step; random numbers depend only on the seed, the batch's number and the device."""
        settings, fabric = self.settings, self.fabric
        _seed(fabric.device, settings.seed, index, fabric.global_rank)
        batch = self.task.batch("train", index, settings.batch_size, settings.seed)
        batch = to_like(share(batch, fabric.global_rank, fabric.world_size), next(self.net.parameters()))
        for group in self.optimizer.param_groups:
            group["lr"] = settings.rate(index)
        loss, values = self.objective(batch)
        self.optimizer.zero_grad()
        fabric.backward(loss)
        if settings.clip:
            fabric.clip_gradients(self.objective, self.optimizer, max_norm=settings.clip, error_if_nonfinite=False)
        self.optimizer.step()
        return values

    def validate(self) -> dict[str, float]:
        """Look at the validation set; notes the best weights and whether to stop."""
        settings, progress = self.settings, self.progress
        rank, ranks = self.fabric.global_rank, self.fabric.world_size
        there = self.task.size("validation") or settings.evaluate_examples
        examples = min(settings.evaluate_examples, there // ranks * ranks)  # as many for each device as for any other
        seen = self._whole(self.learner.validate(examples, 1000 // ranks * ranks, rank, ranks))
        accuracy, steps = seen.accuracy, seen.mean_steps
        progress.since_best = 0 if accuracy > progress.best else progress.since_best + 1
        progress.best = max(progress.best, accuracy)
        progress.finished = accuracy >= settings.stop_at or 0 < settings.patience <= progress.since_best
        if progress.since_best == 0:
            self._save(self.folder.best)
        self._warn_of_collapse(seen)
        if self.by_difficulty is not None:
            for row in seen.by_difficulty():
                self.by_difficulty.write({"batch": progress.batch, **row})
        return {"validation_accuracy": accuracy, "validation_steps": steps}

    def _record(self, row: dict[str, float]) -> None:
        progress = self.progress
        if self.fabric.is_global_zero:
            assert self.log is not None
            self.log.write({"batch": progress.batch, **row, "seconds": round(progress.seconds, 3)})
        for logger in self.fabric.loggers:
            logger.log_metrics(row, progress.batch)
        if progress.batch % self.settings.checkpoint_every == 0 or progress.finished:
            self._save(self.folder.last)

    def _save(self, path: Any) -> None:
        if self.fabric.is_global_zero:
            save_checkpoint(path, self.net, self.optimizer, self.progress)

    def _mean(self, values: Tensor) -> list[float]:
        """The mean over devices."""
        reduced = self.fabric.all_reduce(values, reduce_op="mean")
        assert isinstance(reduced, Tensor)
        return reduced.tolist()

    def _whole(self, seen: Evaluation) -> Evaluation:
        """What all devices have seen together."""
        score, steps, difficulty = (self._gather(part) for part in (seen.score, seen.steps, seen.difficulty))
        return Evaluation(score, steps, difficulty, seen.max_steps, seen.adaptive)

    def _gather(self, values: Tensor) -> Tensor:
        gathered = self.fabric.all_gather(values)
        assert isinstance(gathered, Tensor)
        return gathered.flatten()

    def _open_log(self, path: Path, columns: list[str]) -> MetricsLog | None:
        return MetricsLog(path, columns, self.progress.batch) if self.fabric.is_global_zero else None

    def _bar(self) -> Any:
        from tqdm import tqdm

        hidden = not (self.settings.progress and self.fabric.is_global_zero)
        done, title = self.progress.batch, self.learner.title
        return tqdm(total=self.settings.batches, initial=done, desc=title, unit="batch", disable=hidden)

    def _warn_of_collapse(self, seen: Evaluation) -> None:
        if (what := seen.collapse()) and self.progress.batch >= self.settings.batches // 2:
            self._say(f"warning: {what} (validation after batch {self.progress.batch})")

    def _say(self, text: str) -> None:
        if self.fabric.is_global_zero:
            from tqdm import tqdm

            tqdm.write(text, file=sys.stderr)


def _seed(device: torch.device, *numbers: int) -> None:
    """Random numbers that follow from these. (`torch.manual_seed` would note a stack trace for absent devices each time.)"""
    seed = int(mix(torch.tensor(numbers).cumsum(0)).sum()) & 0x7FFFFFFF
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)


def _fabric(settings: Settings, some_unused: bool, folder: RunFolder) -> Fabric:
    """Fabric for one device, several on this machine, or as torchrun says."""
    torchrun = "TORCHELASTIC_RUN_ID" in os.environ
    devices = int(os.environ["LOCAL_WORLD_SIZE"]) if torchrun else settings.devices
    nodes = int(os.environ["WORLD_SIZE"]) // devices if torchrun else 1
    strategy: Strategy | str = DDPStrategy(find_unused_parameters=some_unused) if devices * nodes > 1 else "auto"
    return Fabric(
        accelerator=settings.accelerator, devices=devices, num_nodes=nodes, strategy=strategy, precision=settings.precision,
        loggers=_tensorboard(folder) if settings.tensorboard else None,
    )  # fmt: skip


def _tensorboard(folder: RunFolder) -> Any:
    from lightning_fabric.loggers import TensorBoardLogger

    try:
        return TensorBoardLogger(folder.path, name="", version="tensorboard")
    except ModuleNotFoundError as error:
        raise ImportError('TensorBoard is not installed: pip install "ponderosa[tensorboard]"') from error
