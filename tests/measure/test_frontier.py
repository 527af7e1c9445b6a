"""The frontier, calibration and allocation of networks, from a data loader."""

import pytest
import torch
from tests.zoo import Script
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import ponderosa as po
from ponderosa.measure.allocation import Allocation, allocation, calibration_error
from ponderosa.measure.batches import right
from ponderosa.measure.calibrate import calibrate
from ponderosa.measure.cost import cost
from ponderosa.measure.frontier import area, bands, frontier
from ponderosa.measure.report import report
from ponderosa.measure.sweep import knob_of, sweep


def scripted(logits: torch.Tensor, halting: po.Halting) -> po.Ponder:
    """A net whose answer at step n is `x[:, n]`: the input holds the logits of all steps `[batch, steps + 1, classes]`."""
    step = po.CellStep(Script(), initial_state=lambda x: x[:, 0], size=logits.shape[-1])
    return po.Ponder(step, halting, head=nn.Identity(), max_steps=logits.shape[1] - 1)


def gru(halting: po.Halting, steps: int = 6) -> po.Ponder:
    torch.manual_seed(0)
    return po.Ponder(po.GRUStep(4, 16), halting, head=nn.Linear(16, 3), max_steps=steps)


def loader(examples: int = 300) -> DataLoader:
    random = torch.Generator().manual_seed(1)
    x = torch.randn(examples, 4, generator=random)
    return DataLoader(TensorDataset(x, torch.randint(3, (examples,), generator=random)), batch_size=128)


MECHANISMS = [po.LAC(), po.ACT(), po.PonderNet(), po.ConfidenceExit(), po.EntropyExit(), po.PatienceExit(), po.PlannedDepth(3)]


@pytest.mark.parametrize("halting", MECHANISMS, ids=lambda h: type(h).__name__)
def test_every_setting_is_what_the_network_does_there(halting):
    """Accuracy, steps and operations as if the network had been run with each setting; the network stays as it is."""
    net, data = gru(halting), loader()
    before = [module.training for module in net.modules()]
    swept, knob = sweep(net, data, settings=5), knob_of(net)
    assert [module.training for module in net.modules()] == before
    net.eval()
    for row, value in enumerate(swept.values):
        with knob.turned(value), torch.no_grad():
            seen = [(net(x), x, y) for x, y in data]
            assert torch.equal(swept.steps[row], torch.cat([s.steps for s, _, _ in seen]).float())
            assert torch.equal(swept.score[row], torch.cat([right(s.output, y) for s, _, y in seen]))
            done = sum(cost(net, x, s).done * len(x) for s, x, _ in seen) / len(swept.score[row])
            assert swept.operations[row] == pytest.approx(done)


def test_a_sweep_takes_every_step_once():
    """Whatever the number of settings: as many step calls as one pass at full depth."""
    rows = []

    class Counted(nn.GRUCell):
        def forward(self, x, state):
            rows.append(len(state))
            return super().forward(x, state)

    sweep(po.Ponder(Counted(4, 16), po.ConfidenceExit(), head=nn.Linear(16, 3), max_steps=6), loader(), settings=20)
    assert sum(number for number in rows if number > 2) == 6 * 300  # a row or two are priced, once
    assert sum(number for number in rows if number <= 2) < 20


def test_tokens_are_run_once_for_each_setting():
    torch.manual_seed(0)
    net = po.Ponder(po.TransformerStep(8, 2), po.ACT(unit="token"), head=po.ReadOut(8, 3), max_steps=4)
    x = torch.randn(20, 5, 8)
    data = [(x, torch.randint(3, (20,)))]
    swept = sweep(net, data, settings=4)
    net.eval()
    for row, value in enumerate(swept.values):
        with knob_of(net).turned(value), torch.no_grad():
            solution = net(x)
        assert torch.allclose(swept.steps[row], solution.steps.float().mean(1))
        assert swept.operations[row] == pytest.approx(cost(net, x, solution).done)
    assert allocation(net, data).by_depth()


def test_the_limit_is_everybodys_knob():
    assert len(frontier(gru(po.Fixed()), loader()).points) == 1
    front = frontier(gru(po.Fixed()), loader(), knob="max_steps", time=True)
    assert front.points.column("value") == front.points.column("mean_steps") == [6, 5, 4, 3, 2, 1]
    assert all(time > 0 for time in front.points.column("microseconds"))
    with pytest.raises(ValueError, match="LAC has no knob 'beta': choose alpha or max_steps"):
        knob_of(gru(po.LAC()), "beta")


def test_a_frontier_shows_itself():
    front = frontier([gru(po.LAC()), gru(po.LAC())], loader(), name="two <seeds>", settings=4)
    assert front.seeds == 2
    assert "alpha" in repr(front) and "area under the frontier" in repr(front)
    shown = front._repr_html_()
    assert "<svg" in shown and "<table>" in shown and "two <seeds>" not in shown
    for row in front.points:
        assert row["low"] <= row["accuracy"] <= row["high"]


def test_bands_cover_examples_and_seeds():
    """For one seed the width is that of a binomial mean; seeds that differ widen it."""
    random = torch.Generator().manual_seed(0)
    score = (torch.rand(1, 1, 4000, generator=random) < 0.8).float()
    low, high = bands(score, resamplings=1000)
    assert float(high - low) == pytest.approx(2 * 1.96 * (0.16 / 4000) ** 0.5, rel=0.15)
    apart = torch.cat([score, torch.zeros_like(score)])
    low, high = bands(apart)
    assert low < 0.05 and high > 0.75


def test_the_area():
    assert area([(1.0, 0.9)]) == 0
    assert area([(0.5, 0.8), (0.25, 0.4), (0.75, 0.6)]) == pytest.approx(0.25 * 0.4 + 0.5 * 0.8)


def test_where_the_steps_went():
    """Worked out by hand: four examples, three steps, right (R) or wrong (W) at each, and where a plan halts them."""
    logits = {"R": [0.0, 2.0], "W": [2.0, 0.0]}
    answers = ["RRR", "RWR", "WWR", "WRW"]
    states = torch.tensor([[[0.0, 0.0], *(logits[a] for a in row)] for row in answers])
    net = scripted(states, po.PlannedDepth(lambda x: torch.tensor([3, 2, 2, 3])))
    seen = allocation(net, [(states, torch.ones(4, dtype=torch.long))])
    assert isinstance(seen, Allocation)
    assert seen.first_right.tolist() == [1, 1, 3, 2]
    assert seen.seen.accuracy == 0.25
    assert seen.oracle_accuracy == 1
    assert seen.overthinking == 0.5  # the second and the last were right earlier
    assert seen.underthinking == 0.5  # the second and the third would be right later
    assert seen.regret == (2 + 1 + 0 + 1) / 4  # the third halts too soon: nothing beyond
    assert [row["examples"] for row in seen.by_depth()] == [2, 2]
    assert "overthinking" in repr(seen) and "<table>" in seen._repr_html_()
    assert seen.by_class(["no", "yes"]).column("class") == ["yes"]


def test_regret_is_never_negative():
    """Halted one step before the answer is right, or never right: no step was too many."""
    states = torch.tensor([[[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]], [[0.0, 0.0], [2.0, 0.0], [2.0, 0.0]]])
    net = scripted(states, po.PlannedDepth(lambda x: torch.tensor([1, 2])))
    seen = allocation(net, [(states, torch.ones(2, dtype=torch.long))])
    assert seen.first_right.tolist() == [2, 0]
    assert (seen.regret, seen.underthinking) == (0.0, 0.5)


def test_examples_without_a_difficulty_get_no_table_of_it():
    seen = allocation(gru(po.LAC()), loader())
    assert seen.seen.by_difficulty() == seen.by_difficulty() == []
    assert "difficulty" not in f"{seen!r}{seen._repr_html_()}".replace("fairness", "").split("halted at step")[1]


def test_full_depth_stays_the_networks_own():
    """A limit that was calibrated is not taken for full depth by what comes after it."""
    x = torch.randn(400, 1, 3, generator=torch.Generator().manual_seed(0)).expand(400, 6, 3).contiguous()
    net, data = scripted(x, po.Fixed()), [(x, x[:, 0].argmax(-1))]
    for _ in range(2):
        found = calibrate(net, data, drop=1.0, knob="max_steps")
        assert (found.value, found.full_steps) == (1, 5)
        found.apply(net)
        assert (net.max_steps, net.full_depth) == (1, 5)
    net.max_steps = 9  # thinking longer
    assert net.full_depth == 9
    net = gru(po.LAC())
    full = cost(net, torch.ones(2, 4)).full
    net.max_steps = 2
    assert cost(net, torch.ones(2, 4)).full == full
    assert sweep(net, loader(), settings=3).steps.max() == 2  # the limit holds while another knob is turned


@pytest.mark.parametrize("halting", [po.LAC(), po.ConfidenceExit(), po.PonderNet(), po.LAC(unit="batch")], ids=str)
def test_a_promise_is_held_against_the_network_that_never_halts(halting):
    net, data = gru(halting), loader()
    full = po.Ponder(net.step, po.Fixed(), head=net.head, max_steps=net.max_steps).eval()
    swept = sweep(net, data, settings=3)
    with torch.no_grad():
        assert torch.equal(swept.reference.score, torch.cat([right(full(x).output, y) for x, y in data]))
    assert (swept.reference.name, swept.reference.steps) == ("full depth", 6)
    assert swept.reference.operations == swept.full_operations


def test_where_steps_are_weighed_the_reference_is_the_deepest_setting():
    swept = sweep(gru(po.ACT()), loader(), settings=3)
    assert torch.equal(swept.reference.score, swept.score[0])
    assert "below the deepest setting, eps = 0.01, with probability" in str(calibrate(gru(po.ACT()), loader(), drop=2.0))


def test_a_reference_worse_than_the_network_is_said_to_be():
    """Right at the first step, wrong at the last: what is promised against full depth says little."""
    states = torch.tensor([[[0.0, 0.0], [0.0, 2.0], [2.0, 0.0]]]).repeat(400, 1, 1)
    net = scripted(states, po.PlannedDepth(1))
    said = str(calibrate(net, [(states, torch.ones(400, dtype=torch.long))], drop=1.0))
    assert "as it was: 1.00 steps at accuracy 1.0000, more than what the promise is held against" in said


def test_a_shuffling_loader_shows_all_seeds_the_same_examples():
    data = loader()
    shuffled = DataLoader(data.dataset, batch_size=128, shuffle=True)
    one = gru(po.LAC())
    assert frontier([one, one], shuffled, settings=2).own["accuracy"] == pytest.approx(frontier(one, data).own["accuracy"])
    torch.manual_seed(0)
    seen = []
    frontier([one, one], shuffled, settings=2, score=lambda output, y: (seen.append(y[: len(y) // 3]), right(output, y))[1])
    first, second = seen[: len(seen) // 2], seen[len(seen) // 2 :]
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_calibration_error_by_hand():
    confidence, score = torch.tensor([0.95, 0.95, 0.55, 0.55]), torch.tensor([1.0, 1.0, 0.0, 1.0])
    assert calibration_error(confidence, score) == pytest.approx(0.5 * 0.05 + 0.5 * 0.05)


def test_calibrating_and_applying():
    """Answers that never change: halting at once loses nothing, so the shallowest setting is promised, and used."""
    x = torch.randn(400, 1, 3, generator=torch.Generator().manual_seed(0)).expand(400, 5, 3).contiguous()
    net = scripted(x, po.ConfidenceExit(threshold=1.0))
    data = [(x, x[:, 0].argmax(-1))]
    found = calibrate(net, data, drop=1.0)
    assert found.kept and found.mean_steps == 1 and found.full_steps == 4
    assert net.halting.threshold == 1.0
    found.apply(net)
    assert net.eval()(x).steps.unique().tolist() == [1]
    with pytest.raises(ValueError, match="say either"):
        calibrate(net, data)
    with pytest.raises(ValueError, match="drop=0"):
        calibrate(net, data, drop=0.0)
    with pytest.raises(ValueError, match="delta=2"):
        calibrate(net, data, drop=1.0, delta=2)


def test_bad_data_is_refused():
    with pytest.raises(TypeError, match=r"a pair \(x, y\)"):
        sweep(gru(po.LAC()), [torch.ones(3, 4)])
    with pytest.raises(ValueError, match="no batches"):
        sweep(gru(po.LAC()), [])
    with pytest.raises(TypeError, match=r"a po.Ponder"):
        sweep(nn.Linear(2, 2), loader())


@pytest.mark.parametrize("settings", [0, -3, [], float("nan"), [0.5, float("nan")]])
def test_nonsense_settings_are_refused(settings):
    for measure in (sweep, frontier, lambda *given, **options: calibrate(*given, drop=1.0, **options)):
        with pytest.raises(ValueError, match="settings="):
            measure(gru(po.LAC()), loader(), settings=settings)


@pytest.mark.parametrize("limits", [[0], [7], [2.5]])
def test_a_limit_beyond_full_depth_is_refused(limits):
    with pytest.raises(ValueError, match="from 1 to 6, the network's full depth"):
        sweep(gru(po.LAC()), loader(), settings=limits, knob="max_steps")


def test_one_hot_targets_are_refused():
    data = [(x, nn.functional.one_hot(y, 3)) for x, y in loader()]
    with pytest.raises(ValueError, match=r"y\.argmax\(-1\)"):
        frontier(gru(po.LAC()), data)


@pytest.mark.parametrize(("halting", "listed"), [(po.ConfidenceExit(), [0.2, 0.9, 0.5]), (po.ACT(), [0.96, 0.01, 0.5])])
def test_settings_in_any_order_are_taken_deepest_first(halting, listed):
    swept = sweep(gru(halting), loader(), settings=listed)
    assert sorted(swept.values) == sorted(listed)
    means = swept.steps.mean(1).tolist()
    assert means == sorted(means, reverse=True)


def test_nothing_is_promised_where_a_batch_halts_together():
    with pytest.raises(ValueError, match="halt together"):
        calibrate(gru(po.LAC(unit="batch")), loader(), drop=10.0)
    assert calibrate(gru(po.LAC(unit="batch")), loader(), operations=1e9).knob == "alpha"


@pytest.mark.parametrize(
    ("score", "said"),
    [
        (lambda output, y: (output.argmax(-1) == y).float().mean(), "one number for each"),
        (lambda output, y: -nn.functional.cross_entropy(output, y, reduction="none"), "between 0 and 1"),
    ],
)
def test_scores_that_promise_nothing_are_refused(score, said):
    with pytest.raises(ValueError, match=said):
        calibrate(gru(po.LAC()), loader(), drop=10.0, score=score)


@pytest.mark.parametrize("change", [lambda y: y + 10, lambda y: y + 0.5])
def test_targets_that_are_no_class_are_refused(change):
    data = [(x, change(y)) for x, y in loader()]
    with pytest.raises(ValueError, match="one of the 3 classes"):
        frontier(gru(po.LAC()), data)


def test_a_report_needs_names(tmp_path):
    with pytest.raises(TypeError, match="models is Ponder: networks by name are needed"):
        report(gru(po.LAC()), loader(), tmp_path / "report.html")


def test_a_knob_that_does_not_broadcast_is_named():
    class Deaf(po.ConfidenceExit):
        def good(self, logits, memory):
            return torch.ones(len(logits), dtype=torch.bool), memory

    with pytest.raises(ValueError, match="must broadcast over the knob"):
        sweep(gru(Deaf()), loader())
