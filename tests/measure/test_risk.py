"""Calibration by exact tests in a fixed sequence: against a plain sum, and against its promise in simulation."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ponderosa.measure.risk import binomial_tail, boldest


@given(st.integers(1, 60), st.floats(0.01, 0.99), st.data())
def test_the_tail_is_the_plain_sum(examples: int, risk: float, data: st.DataObject) -> None:
    errors = data.draw(st.integers(0, examples))
    plain = sum(math.comb(examples, k) * risk**k * (1 - risk) ** (examples - k) for k in range(errors + 1))
    assert binomial_tail(errors, examples, risk) == pytest.approx(plain, rel=1e-9)


def test_the_promise_is_kept() -> None:
    """Knobs with true risks around the limit: one above it is chosen no more often than delta, up to three errors."""
    random = torch.Generator().manual_seed(0)
    risk, delta, examples, tries = 0.05, 0.1, 300, 1000
    risks = torch.tensor([0.01, 0.02, 0.04, 0.051, 0.06, 0.1])
    errors = torch.binomial(torch.full((tries, 6), float(examples)), risks.expand(tries, 6), generator=random).long()
    chosen = [boldest(enumerate(row), examples, risk, delta) for row in errors.tolist()]
    broken = sum(knob is not None and float(risks[knob]) > risk for knob in chosen) / tries
    assert broken <= delta + 3 * math.sqrt(delta * (1 - delta) / tries)
    assert sum(knob is not None and knob >= 1 for knob in chosen) > 0.9 * tries  # and it is not for want of courage


def test_too_little_is_known() -> None:
    assert boldest([(0.9, 0)], examples=50, risk=0.01, delta=0.05) is None
    with pytest.raises(ValueError, match="between 0 and 1"):
        boldest([(0.9, 0)], examples=50, risk=0.0, delta=0.05)
