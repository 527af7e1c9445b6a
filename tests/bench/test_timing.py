"""The stopwatch: turns, percentiles, threads, and workers in processes of their own."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch

from ponderosa.bench.timing import Worker, alternate, one_thread, percentile, time_runs


@dataclass
class Fake:
    name: str
    turns: list[str] = field(default_factory=list)

    def turn(self) -> list[float]:
        self.turns.append(self.name)
        return [1.0, 2.0]


def test_candidates_take_turns() -> None:
    turns: list[str] = []
    rounds: list[int] = []
    seconds = alternate({name: Fake(name, turns) for name in "ab"}, 3, lambda: rounds.append(len(turns)))
    assert turns == list("ababab") and rounds == [2, 4, 6]
    assert seconds == {"a": [1.0, 2.0] * 3, "b": [1.0, 2.0] * 3}


def test_the_tenth_percentile_is_low_but_not_the_luckiest() -> None:
    assert percentile([float(n) for n in range(101)]) == pytest.approx(10)


def test_every_run_is_timed() -> None:
    runs: list[None] = []
    assert len(time_runs(lambda: runs.append(None), 4)) == len(runs) == 4


def test_one_thread_and_then_as_many_as_before() -> None:
    threads = torch.get_num_threads()
    with pytest.raises(KeyError), one_thread():
        assert torch.get_num_threads() == 1
        raise KeyError
    assert torch.get_num_threads() == threads


WORKER = """
from ponderosa.bench.timing import serve
serve({"turn": lambda: [0.5], "noise": lambda: print("a library speaks") or 1})
"""


def test_a_worker_answers_and_ends(tmp_path: Path) -> None:
    (tmp_path / "tiny_worker.py").write_text(WORKER)
    worker = Worker("tiny_worker", PYTHONPATH=str(tmp_path))
    assert worker.turn() == [0.5]
    assert worker.ask("noise") == 1
    worker.close()
    assert worker.process.returncode == 0


def test_a_worker_that_fails_says_which() -> None:
    worker = Worker("no_such_module")
    worker.process.wait()
    with pytest.raises(RuntimeError, match="no_such_module"):
        worker.ask("turn")
