"""The race against ponder-transformer is fair: the same weights give the same answers, and gates are set as said."""

import pytest
import torch

from ponderosa.bench import transformer
from ponderosa.bench.transformer import Shape, bench_transformer, contestants, equal_gate, expected_steps, set_gate

SMALL = Shape(8, 2, 5, 3)


def test_both_compute_the_same() -> None:
    pytest.importorskip("ponder_transformer")
    net, peer = (module.eval() for module in contestants(SMALL))
    set_gate(net, peer, 1e-9, 1e-9)  # nothing halts before the limit
    x = torch.randint(32, (3, 5))
    answer, last = peer(x)
    assert (last + 1 == net.max_steps).all()
    torch.testing.assert_close(net(x).output, answer, rtol=1e-4, atol=1e-5)


def test_expected_steps_by_hand() -> None:
    assert expected_steps([0.5, 0.5, 0.5]) == 1 + 0.5 + 0.25
    assert equal_gate(0.5, 2) == pytest.approx(0.5)  # p_1 is lambda_1
    assert expected_steps([equal_gate(0.5, 3)] * 3) == pytest.approx(1 + 0.5 + 0.5 * 0.75)


def test_a_short_race() -> None:
    pytest.importorskip("ponder_transformer")
    rows = bench_transformer((SMALL,), seconds=0)["rows"]
    assert [row["what"].split(",")[0] for row in rows] == ["training", "inference", "inference", "inference"]
    assert all(row["speedup"] > 0 for row in rows)
    assert rows[0]["steps"] == rows[0]["peer_steps"] == 13


def test_without_the_peer_it_says_how_to_install_it(monkeypatch) -> None:
    monkeypatch.setattr(transformer.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"peers\.txt"):
        bench_transformer()
