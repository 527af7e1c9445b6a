"""Large batches in slices: the same answers, and only where examples see nothing of each other."""

import pytest
import torch
from torch import Tensor, nn

import ponderosa as po
from ponderosa.engine import slices
from tests import zoo
from tests.zoo import PAIRS, TOKENS, Pair


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_slices_give_the_answers_of_the_whole_batch(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in pair.inputs:
        net, batch = pair.net(3, kind).eval(), zoo.batch(3, 7, 12 if kind == TOKENS else None)
        with torch.no_grad():
            whole = batch.run(net)
            for examples in (1, 3):
                read = net.step.read(whole.state)
                monkeypatch.setattr(slices, "BYTES", examples * read[:1].nbytes)
                found = batch.run(net)
                for name in ("output", "weights", "steps", "state"):
                    torch.testing.assert_close(getattr(found, name), getattr(whole, name), rtol=0, atol=1e-10)


def seen(monkeypatch: pytest.MonkeyPatch, examples: int) -> list[int]:
    """How many examples a step sees at once, where so many of 8 numbers fit into a slice."""
    sizes: list[int] = []
    monkeypatch.setattr(slices, "BYTES", examples * 8 * 4)
    advance = po.GRUStep.advance
    monkeypatch.setattr(po.GRUStep, "advance", lambda *given: (sizes.append(len(given[2])), advance(*given))[1])
    return sizes


def test_a_large_batch_is_sliced(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = seen(monkeypatch, 20)
    net = po.Ponder(po.GRUStep(4, 8), po.Fixed(), max_steps=2).eval()
    with torch.no_grad():
        assert net(torch.randn(57, 4)).steps.shape == (57,)
    assert sizes == [20, 20, 20, 20, 17, 17]


@pytest.mark.parametrize("halting", [po.LAC(unit="batch"), po.Fixed()], ids=["one for all", "with gradients"])
def test_what_belongs_together_stays_together(halting: po.Halting, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = seen(monkeypatch, 20)
    net = po.Ponder(po.GRUStep(4, 8), halting, max_steps=2).eval()
    with torch.set_grad_enabled(isinstance(halting, po.Fixed)):
        net(torch.randn(50, 4))
    assert sizes == [50, 50]


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of one example."""
    monkeypatch.setattr(slices, "BYTES", 1)


@pytest.mark.usefixtures("tiny")
def test_what_an_encoder_shares_is_not_cut() -> None:
    """Even where it has as many rows as the batch."""

    class Shares(nn.Module):
        def forward(self, x: Tensor) -> dict[str, Tensor]:
            return {"x": x, "table": torch.arange(5.0)}

    class Looks(po.Step):
        size = 4

        def initial_state(self, given: dict[str, Tensor]) -> Tensor:
            return torch.zeros_like(given["x"])

        def prepare(self, given: dict[str, Tensor], mask: Tensor | None = None) -> Tensor:
            return given["x"] * given["table"].sum()

        def advance(self, context: Tensor, state: Tensor, n: int) -> Tensor:
            return state + context

    net, x = po.Ponder(Looks(), po.Fixed(), max_steps=3, encoder=Shares()).eval(), torch.randn(5, 4)
    with torch.no_grad():
        torch.testing.assert_close(net(x).output, 30 * x)


@pytest.mark.usefixtures("tiny")
def test_plans_and_heads_see_the_whole_batch() -> None:
    class Head(nn.Module):
        def forward(self, state: Tensor) -> Tensor:
            assert len(state) == 5
            return state

    depths = torch.tensor([1, 3, 2, 2, 1])
    net = po.Ponder(po.GRUStep(4, 8), po.PlannedDepth(lambda x: depths), head=Head(), max_steps=3).eval()
    with torch.no_grad():
        assert net(torch.randn(5, 4)).steps.equal(depths)


@pytest.mark.usefixtures("tiny")
def test_in_training_mode_nothing_is_sliced() -> None:
    """A norm over the batch sees all of it, with gradients or without."""
    torch.manual_seed(0)
    net, x = po.Ponder(po.Stack([nn.BatchNorm1d(4)] * 2), po.Fixed()).train(), torch.randn(5, 4)
    with torch.no_grad():
        torch.testing.assert_close(net(x).output.mean(0), torch.zeros(4), rtol=0, atol=1e-6)
