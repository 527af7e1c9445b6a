"""A killed run, resumed, ends with the very numbers of one that was not."""

import json
import random
import signal
import subprocess
import time

import pytest
from safetensors.torch import load_file

from tests.training.conftest import environment, metrics, train, train_command

OPTIONS = ("--halting", "PonderNet", "--batches", "1000", "--schedule", "cosine", "--warmup", "30")


def same_weights(one, other):
    ours, theirs = load_file(one), load_file(other)
    return ours.keys() == theirs.keys() and all(ours[k].equal(theirs[k]) for k in ours)


def start(run) -> subprocess.Popen:
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(train_command(run, *OPTIONS), env=environment(), **quiet)


def kill_during(run, after: float) -> bool:
    """Kill -9 the run once it has written a checkpoint and `after` more seconds have gone; False if it was done before."""
    process = start(run)
    last = run / "checkpoint" / "last.safetensors"
    seen = last.stat().st_mtime_ns if last.exists() else 0
    while process.poll() is None and (not last.exists() or last.stat().st_mtime_ns == seen):
        time.sleep(0.005)
    time.sleep(after)
    process.send_signal(signal.SIGKILL)
    return process.wait() != 0


def test_ten_kills_change_nothing(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert train(whole, *OPTIONS).returncode == 0
    chance = random.Random(0)
    kills = 0
    while kills < 10 and not (killed / "result.json").exists():
        kills += kill_during(killed, after=chance.uniform(0, 0.05))
    done = train(killed, *OPTIONS)
    assert done.returncode == 0, done.stderr
    assert kills == 10
    assert metrics(killed) == metrics(whole)
    assert (killed / "difficulty.csv").read_text() == (whole / "difficulty.csv").read_text()
    for name in ("last", "best"):
        assert same_weights(killed / "checkpoint" / f"{name}.safetensors", whole / "checkpoint" / f"{name}.safetensors")
    ours, theirs = (json.loads((r / "result.json").read_text()) for r in (killed, whole))
    for key in ("accuracy", "mean_steps", "histogram", "batches", "operations"):
        assert ours[key] == theirs[key]


def test_resuming_is_said_and_loses_one_interval_at_most(run):
    assert kill_during(run, after=0.02)
    done = train(run, *OPTIONS)
    assert "resuming" in done.stderr
    batch = int(done.stderr.split("after batch ")[1].split()[0])
    assert batch % 20 == 0
    assert batch > 0


def test_a_finished_run_is_not_trained_again(run):
    first = train(run, "--batches", "20")
    rows = metrics(run)
    second = train(run, "--batches", "20")
    assert first.returncode == second.returncode == 0
    assert metrics(run) == rows


def test_other_options_never_mix_with_a_run(run):
    train(run, "--batches", "20")
    other = train(run, "--batches", "20", "--lr", "0.5")
    assert other.returncode == 2
    assert "lr is 0.5 here, 0.001 there" in other.stderr
    assert "--folder" in other.stderr


@pytest.mark.parametrize("row", ["", "40,0.6", "40,0.6,0.5,3.0,,,1.0\nhalf a r"])
def test_a_row_cut_short_by_the_kill_is_dropped(tmp_path, row):
    from ponderosa.training.run import MetricsLog, RunFolder

    folder = RunFolder(tmp_path)
    folder.metrics.write_text(f"batch,loss,seconds\n20,0.7,1\n{row}")
    log = MetricsLog(folder.metrics, ["batch", "loss", "seconds"], resume_at=20)
    log.write({"batch": 40, "loss": 0.5, "seconds": 2})
    log.close()
    assert [r["batch"] for r in folder.curve()] == [20, 40]


def test_two_processes_never_train_the_same_run(run):
    process = start(run)
    while process.poll() is None and not (run / "metrics.csv").exists():
        time.sleep(0.01)
    second = train(run, *OPTIONS)
    assert second.returncode == 2
    assert "another process is training" in second.stderr
    process.kill()
    process.wait()
