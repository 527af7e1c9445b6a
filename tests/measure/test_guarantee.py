"""The promise of a calibration, by exact sums and by simulation."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from ponderosa.measure.calibrate import Calibration, dropping, within
from ponderosa.measure.evaluate import Evaluation
from ponderosa.measure.guarantee import binomial_cdf, needed, safe, upper_bound
from ponderosa.measure.sweep import Reference, Sweep

DROP = 4.0
SETTINGS, POPULATION, TRIALS = 40, 100_000, 300


def by_hand(successes: int, trials: int, p: float) -> float:
    return sum(math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(successes + 1))


@pytest.mark.parametrize(("successes", "trials", "p"), [(0, 5, 0.3), (2, 9, 0.5), (7, 40, 0.05), (40, 40, 0.2), (3, 900, 0.01)])
def test_the_binomial_distribution(successes, trials, p):
    assert binomial_cdf(successes, trials, p) == pytest.approx(by_hand(successes, trials, p), rel=1e-9)


def test_the_bound_is_where_the_tail_is_delta():
    for lost, examples, delta in ((0, 100, 0.05), (3, 200, 0.1), (250, 5000, 0.05)):
        bound = upper_bound(lost, examples, delta)
        assert binomial_cdf(lost, examples, bound) == pytest.approx(delta, rel=1e-6)
    assert upper_bound(0, 299, 0.05) == pytest.approx(1 - 0.05 ** (1 / 299))
    assert upper_bound(5, 5, 0.05) == 1


def test_the_fewest_examples_that_can_promise_anything():
    assert needed(0.01, 0.05) == 299
    assert safe([0], 298, 0.01, 0.05) == 0
    assert safe([0], 299, 0.01, 0.05) == 1


def test_testing_stops_at_the_first_that_fails():
    assert safe([0, 0, 50, 0], 1000, 0.01, 0.05) == 2


@pytest.fixture(scope="module")
def population() -> Sweep:
    """Examples that need between 1 and 12 steps, halted by a noisy guess of it: the shallower the setting, the more are lost.

    Some are wrong at full depth, and a few of these are right when they halt early.
    """
    random = torch.Generator().manual_seed(0)
    need = torch.randint(1, 13, (POPULATION,), generator=random)
    guess = need + 2.0 * torch.randn(POPULATION, generator=random)
    steps = (guess + torch.linspace(14, -6, SETTINGS)[:, None]).round().clamp(1, 12)
    luck = torch.rand(POPULATION, generator=random)
    full_right = luck < 0.9
    score = torch.where(full_right, steps >= need, luck > 0.98).float()
    score[0], steps[0] = full_right.float(), 12.0
    return sweep(score, steps)


def sweep(score: Tensor, steps: Tensor) -> Sweep:
    """Settings by number, at ten operations a step."""
    operations = (10 * steps.mean(1)).tolist()
    own = Evaluation(score[0], steps[0], torch.zeros(score.shape[1]), 12, True)
    full = Reference("full depth", score[0], 12.0, 120.0)
    return Sweep("alpha", list(range(len(score))), score, steps, operations, 120.0, full, own, 120.0)


def risk(of: Sweep) -> Tensor:
    return (of.score < of.score[0]).float().mean(1)


@pytest.mark.parametrize("delta", [0.05, 0.1])
@pytest.mark.parametrize("examples", [200, 1000, 5000])
def test_the_promise_is_kept(population, delta, examples):
    """In many calibrations: broken no more often than delta and three standard errors; at 5,000 most of the saving is kept."""
    true, random = risk(population), torch.Generator().manual_seed(examples)
    best = int((true <= DROP / 100).nonzero().max())
    assert 5 < best < SETTINGS - 5, "a promise that is neither trivial nor hopeless"
    possible = 1 - population.operations[best] / population.operations[0]
    steps, by_example = population.steps.mean(1, keepdim=True), population.score.T.contiguous()
    broken, saved = 0, []
    for _ in range(TRIALS):
        rows = torch.randint(POPULATION, (examples,), generator=random)
        found = dropping(sweep(by_example[rows].T, steps), DROP, delta)
        chosen = int(found.value)
        broken += bool(true[chosen] > DROP / 100)
        saved.append(1 - population.operations[chosen] / population.operations[0])
    assert broken / TRIALS <= delta + 3 * math.sqrt(delta * (1 - delta) / TRIALS)
    if examples == 5000:
        assert sum(saved) / TRIALS >= 0.8 * possible


def test_too_little_data_falls_back_to_full_depth_and_says_so(population):
    few = sweep(population.score[:, :50], population.steps[:, :50])
    found = dropping(few, 1.0, 0.05)
    assert (found.value, found.kept) == (0, False)
    assert "cannot be promised" in str(found)
    assert "299 at least are needed" in str(found)


def test_a_deepest_setting_that_falls_short_of_full_depth_is_not_promised(population):
    """Full depth is right everywhere, every setting wrong on two examples of a hundred: none can promise one point."""
    score = torch.ones(3, 1000)
    score[:, ::50] = 0.0
    swept = replace(sweep(score, torch.full((3, 1000), 5.0)), reference=Reference("full depth", torch.ones(1000), 12.0, 120.0))
    found = dropping(swept, 1.0, 0.05)
    assert not found.kept and (found.full_accuracy, found.full_steps, found.full_operations) == (1.0, 12.0, 120.0)
    assert "the deepest setting loses 20 of 1,000 examples" in str(found)


def test_a_budget_of_operations(population):
    found = within(population, 60.0)
    assert found.operations <= 60 and found.kept
    assert found.accuracy == max(population.score[i].mean() for i in range(SETTINGS) if population.operations[i] <= 60)
    with pytest.raises(ValueError, match="the cheapest setting of alpha takes"):
        within(population, 1.0)
    assert isinstance(found, Calibration) and "at most 60 operations" in found._repr_html_()
