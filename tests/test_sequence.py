"""The encoder of token sequences and their read-out."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import ponderosa as po
from ponderosa.sequence import sinusoids


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "none"])
def test_only_positions_tell_the_order(positions: str) -> None:
    torch.manual_seed(0)
    encoder = po.SequenceEncoder(tokens=9, length=7, size=6, positions=positions)
    x = torch.tensor([[3, 1, 4, 1, 5]])
    there, back = encoder(x), encoder(x.flip(1)).flip(1)
    assert there.shape == (1, 5, 6)
    assert torch.allclose(there, back) == (positions == "none")
    assert torch.equal(encoder(x[:, :3]), there[:, :3])  # a position is the same in a shorter sequence


def test_sinusoids_by_hand() -> None:
    rows = sinusoids(3, 4)
    assert rows[2].tolist() == pytest.approx([math.sin(2), math.cos(2), math.sin(2 / 100), math.cos(2 / 100)])


@given(st.integers(1, 4), st.integers(1, 5), st.integers(0, 3), st.sampled_from(["query", "mean"]), st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_padding_is_not_read(examples: int, tokens: int, extra: int, place: str, seed: int) -> None:
    """Wherever padding stands and whatever is in it, the answer is that of the tokens alone."""
    torch.manual_seed(seed)
    read_out = po.ReadOut(3, 2, place=place).double()
    state = torch.randn(examples, tokens, 3, dtype=torch.float64)
    places = torch.randperm(tokens + extra)[:tokens].sort().values
    padded = torch.full((examples, tokens + extra, 3), 1e9, dtype=torch.float64)
    padded[:, places] = state
    mask = torch.zeros(examples, tokens + extra, dtype=torch.bool)
    mask[:, places] = True
    torch.testing.assert_close(read_out(padded, mask), read_out(state), rtol=0, atol=1e-10)
    read = state[:, 0] if place == "query" else state.mean(1)
    torch.testing.assert_close(read_out(state), read_out.linear(read_out.norm(read)))


def test_bad_input_is_refused() -> None:
    encoder = po.SequenceEncoder(tokens=5, length=4, size=2)
    with pytest.raises(ValueError, match="positions for 4"):
        encoder(torch.zeros(1, 5, dtype=torch.long))
    with pytest.raises(ValueError, match="whole numbers"):
        encoder(torch.zeros(1, 4))
    with pytest.raises(ValueError, match="even size"):
        po.SequenceEncoder(5, 4, 3, positions="sinusoidal")
    with pytest.raises(ValueError, match="learned"):
        po.SequenceEncoder(5, 4, 2, positions="rotary")
    with pytest.raises(ValueError, match="query"):
        po.ReadOut(2, 2, place="last")


def test_a_step_that_recalls_sees_its_input_however_deep() -> None:
    """After many steps of a contracting layer the state still depends on the input, and only with recall."""
    torch.manual_seed(0)
    x = torch.randn(2, 3, 8)
    ends = {}
    for recall in (False, True):
        step = po.TransformerStep(8, 2, norm="post", recall=recall)
        for layer in (step.layers[0].norm_attention, step.layers[0].norm_mlp):
            torch.nn.init.constant_(layer.weight, 0.1)
        net = po.Ponder(step, po.Fixed(), max_steps=60).eval()
        ends[recall] = (net(x).output - net(x + torch.randn_like(x)).output).abs().max()
    assert ends[False] < 1e-5 < 1e-2 < ends[True]
