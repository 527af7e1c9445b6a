"""Small runs, in this process or as a command."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

SMALL = [
    "--task.length", "6", "--step.hidden_size", "12", "--max_steps", "4", "--batch_size", "16", "--log_every", "10",
    "--evaluate_every", "50", "--checkpoint_every", "20", "--evaluate_examples", "200", "--examples", "200",
    "--progress", "false",
]  # fmt: skip


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "ponderosa", *map(str, words)]


def train_command(run: Path, *words: object) -> list[str]:
    return command("train", "parity", *SMALL, "--folder", run, *words)


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", **more}


def train(run: Path, *words: object, **options: object) -> subprocess.CompletedProcess:
    return subprocess.run(
        train_command(run, *words), env=environment(), capture_output=True, text=True, timeout=300, check=False, **options
    )


def metrics(run: Path) -> list[dict[str, str]]:
    """metrics.csv without the wall-clock time."""
    with (run / "metrics.csv").open(newline="") as file:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]


@pytest.fixture
def run(tmp_path):
    return tmp_path / "run"
