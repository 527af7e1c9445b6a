"""Several runs at once, each a process of its own: what compare and reproduce train with."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ponderosa.training.experiment import claim
from ponderosa.training.run import RunFolder


@dataclass
class Job:
    """A run to train: where, and by which configuration (YAML)."""

    folder: Path
    config: str
    batches: int
    examples: int | None = 10_000
    """Test examples that the trained run is measured on; None for all that the task has."""
    command: str = "train"
    """The command that trains it."""
    after: Path | None = None
    """The folder of another run that must be done first."""

    @property
    def run(self) -> RunFolder:
        return RunFolder(self.folder)

    def done_with(self) -> bool:
        """Whether the run is trained and was measured on as many examples as asked for."""
        if not self.run.result.exists():
            return False
        found = json.loads(self.run.result.read_text())
        return self.examples is None or found.get("asked_examples", found["examples"]) == self.examples

    def ready(self) -> bool:
        """Whether what it goes on from is there."""
        return self.after is None or RunFolder(self.after).result.exists()

    def done(self) -> int:
        """Batches done, for the progress bar."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            return int(self.run.curve()[-1]["batch"])
        return 0


def train_all(jobs: list[Job], *, at_once: int = 2, progress: bool = True) -> None:
    """Train every job that has no result yet, `at_once` at a time, each on one thread; killed ones go on."""
    from tqdm import tqdm

    for job in jobs:
        claim(job.run, job.config)  # what is there already must be what is asked for
    waiting = [job for job in jobs if not job.done_with()]
    running: list[tuple[Job, subprocess.Popen[bytes]]] = []
    finished = len(jobs) - len(waiting)
    total = sum(job.batches for job in jobs)
    usual = signal.signal(signal.SIGTERM, signal.default_int_handler)  # ended politely, it ends what it started
    try:
        with tqdm(total=total, unit="batch", disable=not progress, desc=f"{len(jobs)} runs", smoothing=0.05) as bar:
            while waiting or running:
                for job in [job for job in waiting if job.ready()][: at_once - len(running)]:
                    waiting.remove(job)
                    running.append((job, _start(job)))
                if not running:
                    raise RuntimeError(f"{waiting[0].folder} goes on from {waiting[0].after}, which is not there")
                time.sleep(0.5)
                for job, process in [*running]:
                    if process.poll() is not None:
                        running.remove((job, process))
                        finished += 1
                        _check(job, process)
                # a run that stopped early counts as whole
                bar.n = sum(j.batches if j.done_with() else j.done() for j in jobs)
                bar.set_postfix(done=f"{finished}/{len(jobs)}", refresh=False)
                bar.refresh()
    finally:
        signal.signal(signal.SIGTERM, usual)
        for _, process in running:
            process.terminate()


def _start(job: Job) -> "subprocess.Popen[bytes]":
    job.folder.mkdir(parents=True, exist_ok=True)
    wanted = job.folder / "wanted.yaml"
    wanted.write_text(job.config)
    options: dict[str, Any] = {"--config": wanted, "--folder": job.folder, "--progress": "false"}
    if job.examples is not None:
        options["--examples"] = job.examples
    command = [sys.executable, "-m", "ponderosa", job.command, *(str(word) for pair in options.items() for word in pair)]
    log = (job.folder / "log.txt").open("ab")
    environment: dict[str, Any] = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment)


def _check(job: Job, process: "subprocess.Popen[bytes]") -> None:
    if process.returncode:
        log = (job.folder / "log.txt").read_text(errors="replace").strip().splitlines()
        raise RuntimeError(f"the run in {job.folder} failed: {log[-1] if log else 'no message'} (see {job.folder}/log.txt)")
