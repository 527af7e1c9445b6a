"""Two data-parallel processes give the loss curve of one with the same global batch."""

import subprocess
import sys

import pytest

from tests.training import parallel_runs
from tests.training.conftest import environment, metrics, train


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Every halting trained by one process (this one), and by two under torchrun."""
    one, two = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("two")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    words = [*torchrun, "-m", "tests.training.parallel_runs", str(two)]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    parallel_runs.train_all(one)
    return one, two


@pytest.mark.parametrize("name", parallel_runs.HALTINGS)
def test_two_processes_are_as_one(pairs, name):
    ours, theirs = (metrics(folder / name) for folder in pairs)
    assert len(ours) == len(theirs) == 100
    for a, b in zip(ours, theirs, strict=True):
        for key in ("loss", "steps"):
            assert abs(float(a[key]) - float(b[key])) < 1e-4, (a, b)


def test_devices_on_the_command_line(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    for run, devices in ((one, 1), (two, 2)):
        done = train(run, "--halting", "LAC", "--halting.unit", "batch", "--batches", "40", "--devices", devices)
        assert done.returncode == 0, done.stderr
    for a, b in zip(metrics(one), metrics(two), strict=True):
        assert float(a["loss"]) == pytest.approx(float(b["loss"]), abs=1e-4)


@pytest.mark.parametrize(("option", "value", "devices"), [("batch_size", 16, 3), ("evaluate_examples", 201, 2)])
def test_what_cannot_be_shared_evenly_is_refused(tmp_path, option, value, devices):
    done = train(tmp_path / "run", f"--{option}", value, "--devices", devices)
    assert done.returncode == 2
    assert f"{option}={value} cannot be shared evenly by {devices} devices" in done.stderr
