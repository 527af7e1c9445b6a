"""Every setting of a knob replayed from one run of all steps equals a run of the network with that setting."""

import pytest
import torch
from hypothesis import given
from torch import Tensor

import ponderosa as po
from ponderosa.engine.replay import replay, trace
from ponderosa.halting.knob import Knob
from tests import zoo
from tests.test_properties import cases, draws, few
from tests.zoo import LIMIT, PAIRS, Batch, Pair


def replayed(net: po.Ponder, batch: Batch, limits: Tensor | None = None) -> tuple[Tensor, Tensor]:
    encoded, state, units = net.begin(batch.x, mask=batch.mask)
    seen = trace(net.step, net.head, encoded, state, units, net.max_steps)
    return replay(seen, net.step, net.halting, net.head, limits)


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair.unit == "example"], ids=str)
@given(draws)
@few
@torch.no_grad()
def test_replaying_equals_running(pair: Pair, drawn: tuple[int, int, int]) -> None:
    for net, batch in cases(pair, drawn):
        net.eval()
        knob = net.halting.knob(LIMIT)
        if knob is not None:
            settings = knob.values(7)
            dtype = torch.float64 if isinstance(settings[0], float) else torch.long
            with knob.turned(torch.tensor(settings, dtype=dtype)[:, None]):
                outputs, steps = replayed(net, batch)
            for row, setting in enumerate(settings):
                with knob.turned(setting):
                    check(batch, batch.run(net), outputs[row], steps[row])
        outputs, steps = replayed(net, batch, torch.arange(1, LIMIT + 1)[:, None])
        for limit in range(1, LIMIT + 1):
            check(batch, batch.run(net, max_steps=limit), outputs[limit - 1], steps[limit - 1])


def check(batch: Batch, solution: po.Solution, output: Tensor, steps: Tensor) -> None:
    assert torch.equal(solution.steps, steps)
    real = batch.mask if batch.mask is not None and output.ndim == 3 else slice(None)  # of padding nothing is said
    torch.testing.assert_close(solution.output[real], output[real], rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", zoo.HALTINGS)
def test_a_knob_goes_from_deep_to_shallow(name: str) -> None:
    """The deepest setting takes the most steps of all, the shallowest the fewest; turning it for a while leaves no trace."""
    tokens = "example" not in zoo.HALTINGS[name][0]
    pair = Pair(name, "token" if tokens else "example", "gru")
    net, batch = pair.net(3, zoo.TOKENS if tokens else zoo.FLAT).eval(), zoo.batch(3, 50, 4 if tokens else None)
    knob = net.halting.knob(LIMIT) or Knob(net, "max_steps", LIMIT, 1)
    before, found = batch.run(net).steps, []
    for setting in knob.values(9):
        with knob.turned(setting):
            found.append(batch.run(net).steps.double().mean().item())
    assert found == sorted(found, reverse=True)
    assert torch.equal(batch.run(net).steps, before)


def test_settings() -> None:
    assert Knob(None, "a", 0.0, 1.0).values(3) == [0.0, 0.5, 1.0]
    assert Knob(None, "a", 2.0, 1.0).values(1) == [2.0]
    assert Knob(None, "a", 3, -1).values(20) == [3, 2, 1, 0, -1]
    crowded = Knob(None, "a", 1.0, 0.5, crowded=True).values(6)
    assert crowded == pytest.approx([1, 1 - 0.5e-4, 1 - 0.5e-3, 1 - 0.5e-2, 0.95, 0.5])
