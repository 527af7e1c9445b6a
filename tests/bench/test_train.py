"""The race is fair: our networks and the peers' compute the same, and where a peer's maths differs, it is known how."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits as criterion

import ponderosa as po
from ponderosa.bench import train
from ponderosa.bench.peers import adaptive_gru, labml, share_weights

SIZE, HIDDEN, STEPS, BATCH = 4, 6, 7, 16
BETA, LAMBDA_P, TAU, EPS = 0.5, 0.2, 0.1, 0.01


@pytest.fixture(autouse=True)
def in_float64():
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(torch.float32)


def ours(halting: po.Halting) -> po.Ponder:
    return po.Ponder(po.GRUStep(SIZE, HIDDEN), halting, head=nn.Linear(HIDDEN, 1), max_steps=STEPS)


def data() -> tuple[Tensor, Tensor]:
    return torch.randn(BATCH, SIZE), torch.randint(0, 2, (BATCH, 1)).double()


def gradients(loss: Tensor, *modules: nn.Module) -> list[Tensor]:
    return list(torch.autograd.grad(loss, [p for module in modules for p in module.parameters()], materialize_grads=True))


def same(found: list[Tensor], expected: list[Tensor]) -> None:
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)


def test_pondernet_is_labmls_but_for_the_priors_normalisation() -> None:
    """labml-nn cuts its prior off without renormalising it. With Z its sum, its divergence is Z (KL + log Z):
    ours with Z beta, and a constant."""
    pytest.importorskip("labml_nn")
    z = 1 - (1 - LAMBDA_P) ** STEPS
    net = ours(po.PonderNet(beta=BETA * z, lambda_p=LAMBDA_P, kl="reverse"))
    peer = labml(SIZE, HIDDEN, STEPS, BETA, LAMBDA_P)
    share_weights(net, peer.net)
    theirs: Any = peer.net
    x, y = data()
    our_loss, their_loss = net.loss(net(x), y, criterion), peer.loss(x, y)
    same([our_loss + BETA * z * math.log(z)], [their_loss])
    same(
        gradients(our_loss, net.step, net.head, net.halting),
        gradients(their_loss, theirs.gru, theirs.output_layer, theirs.lambda_layer),
    )
    assert (peer.steps(x) == net(x).steps).all()


def test_act_answers_like_the_peer_and_learns_differently() -> None:
    """The peer gives the last step h + (1 - sum) with the sum cut off from the graph, and rewards the last halting value,
    too; Graves' remainder is 1 minus the earlier ones, and only they are rewarded. The rest is the same."""
    pytest.importorskip("pytorch_adaptive_computation_time")
    net = ours(po.ACT(tau=TAU, eps=EPS + 0.27, bias=-1.0))
    with torch.no_grad():
        net.halting.gate.weight *= 0.1  # near its bias, where both halt at the same step
    peer = adaptive_gru(SIZE, HIDDEN, STEPS, TAU, EPS, -1.0)
    share_weights(net, peer.net)
    theirs: Any = peer.net
    x, y = data()
    solution, (answer, _, steps) = net(x), theirs(x)
    same([solution.output, solution.steps.double()], [answer, steps])
    assert 1 < solution.mean_steps < STEPS
    our_cell, their_cell = net.step.cell, theirs.adaptive._cell
    found = gradients(peer_loss(net, x, y), our_cell, net.halting, net.head)
    expected = gradients(peer.loss(x, y), their_cell, theirs.adaptive._halting_unit, theirs.head)
    expected[0] = expected[0][:, :SIZE]  # without the first-step flag
    same(found, expected)
    same(gradients(net.loss(solution, y, criterion), net.head), expected[-2:])


def peer_loss(net: Any, x: Tensor, y: Tensor) -> Tensor:
    """The peer's maths on our states."""
    states = net.step.unroll(net.step.prepare(x), net.step.initial_state(x), 1, STEPS)
    halt = net.halting.gate(states)[..., 0].sigmoid()
    n, last = torch.arange(1, STEPS + 1)[:, None], net(x).steps
    kept = torch.where(n <= last, halt, 0.0)
    weights = kept + torch.where(n == last, (1 - kept.sum(0)).detach(), 0.0)
    answer = net.head((weights[..., None] * states).sum(0))
    return criterion(answer, y) - TAU * kept.sum(0).mean()


@pytest.mark.parametrize(("task", "expected"), [(train.ACT_FEW, 3), (train.ACT_ALL, train.STEPS)])
def test_act_takes_as_many_steps_as_the_peer(task: str, expected: int) -> None:
    pytest.importorskip("pytorch_adaptive_computation_time")
    x = train.Parity(train.SIZE).batch("train", 0, train.BATCH).x.double()
    for who in (train.EAGER, train.PEER_ACT):
        assert (train.contestant(task, who).steps(x) == expected).all()


class Instant:
    """A worker that is done before it starts."""

    def __init__(self, module: str, task: str, who: str, **environment: str):
        self.who = who

    def ask(self, question: str) -> Any:
        return {"start": {"mean_steps": 3.0, "compile_seconds": None}, "memory": 1}[question]

    def turn(self) -> list[float]:
        return [0.002 if "ponderosa" in self.who else 0.006]

    def close(self) -> None:
        pass


def test_a_peer_that_is_not_installed_is_left_out(monkeypatch) -> None:
    monkeypatch.setattr(train, "Worker", Instant)
    monkeypatch.setattr(train, "_seconds", lambda statement: 0.1)
    monkeypatch.setattr(train, "_installed", lambda name: name != train.PEER_ACT)
    monkeypatch.setattr(train, "environment", lambda *packages: dict.fromkeys(packages))
    found = train.bench_train(rounds=2, compile=False, progress=False)
    rows = {(row["task"], row["who"]): row for row in found["rows"]}
    assert rows[train.PONDERNET, train.EAGER]["speedup"] == 3.0
    assert rows[train.PONDERNET, train.LABML]["examples_per_second"] == round(train.BATCH / 0.006)
    assert rows[train.ACT_FEW, train.EAGER]["speedup"] is None
    assert any(who.startswith(train.PEER_ACT) and "pip install" in who for task, who in rows if task == train.ACT_ALL)
    assert set(found["imports"]) == {"ponderosa", train.LABML}


@pytest.mark.slow
def test_a_short_race() -> None:
    found = train.bench_train(rounds=1, compile=False, progress=False)
    assert all(row["ms"] > 0 and row["memory_mb"] > 0 for row in found["rows"] if "ms" in row)
    assert found["environment"]["threads"] == 1
