"""A run's folder: all that is needed to repeat it, to go on with it and to look at it."""

import contextlib
import csv
import fcntl
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ponderosa.training.checkpoint import replacing


class RunFolder:
    """`config.yaml`, `metrics.csv`, `difficulty.csv`, `result.json`, and `checkpoint/` with last and best .safetensors.

    `calibration.json` where the run was calibrated, `model/` where it made a model of `transformers`.
    """

    def __init__(self, path: Path | str):
        self.path = Path(path)
        self.config = self.path / "config.yaml"
        self.metrics = self.path / "metrics.csv"
        self.by_difficulty = self.path / "difficulty.csv"
        self.last = self.path / "checkpoint" / "last.safetensors"
        self.best = self.path / "checkpoint" / "best.safetensors"
        self.result = self.path / "result.json"
        self.calibration = self.path / "calibration.json"
        self.model = self.path / "model"

    @property
    def weights(self) -> Path:
        """The checkpoint to use: the best on the validation set, or the last if none was validated yet."""
        return self.best if self.best.exists() else self.last

    def curve(self) -> list[dict[str, float]]:
        """The rows of metrics.csv; empty cells are left out."""
        return _rows(self.metrics)

    def curriculum(self) -> list[dict[str, float]]:
        """The rows of difficulty.csv: what each validation found, by difficulty."""
        return _rows(self.by_difficulty)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the folder for this process: two that train the same run would spoil each other's files."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / ".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the system lets go when the process ends, however it ends
            except BlockingIOError as error:
                raise RuntimeError(f"another process is training {self.path}: wait for it, or end it first") from error
            yield

    def write_result(self, result: dict[str, Any]) -> None:
        write_json(self.result, result)


def _rows(path: Path) -> list[dict[str, float]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [{k: float(v) for k, v in row.items() if v} for row in csv.DictReader(file)]


class MetricsLog:
    """Appends rows to metrics.csv; on resume, rows after the checkpoint are dropped first."""

    def __init__(self, path: Path, columns: list[str], resume_at: int):
        self.columns = columns
        rows = []
        if resume_at and path.exists():
            with path.open(newline="") as file:
                rows = [row for row in csv.DictReader(file) if _batch(row) <= resume_at]
        with replacing(path) as temporary, temporary.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)
        self._file = path.open("a", newline="")
        self._writer = csv.DictWriter(self._file, columns)

    def write(self, row: dict[str, Any]) -> None:
        self._writer.writerow(row)
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def _batch(row: dict[str, str]) -> float:
    try:
        return float(row["batch"])
    except (KeyError, TypeError, ValueError):  # a row cut short when the run was killed
        return float("inf")


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def write_json(path: Path, value: Any) -> None:
    """Write JSON so that a crash never leaves half a file."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(value, indent=1) + "\n")
