"""Every precision trains, is validated and is measured."""

import pytest

from tests.training.conftest import train


@pytest.mark.parametrize("precision", ["64-true", "bf16-true", "bf16-mixed"])
def test_precision(run, precision):
    done = train(run, "--halting", "PonderNet", "--batches", "50", "--precision", precision)
    assert done.returncode == 0, done.stderr
    assert "accuracy" in done.stdout
