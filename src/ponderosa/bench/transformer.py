"""`ponderosa bench transformer`: PonderNet on a universal transformer, ours and lucidrains' ponder-transformer, one thread.

Both are given the same weights and compute the same states; a test keeps it so. The peer halts an example with probability
p_n where PonderNet says lambda_n, so it thinks longer on the same gate: inference is raced on the same gate, and on gates that
make both take equally many steps.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ponderosa.bench.engine import alternate_for
from ponderosa.bench.peers import INSTALL
from ponderosa.bench.timing import one_thread, percentile
from ponderosa.halting import PonderNet
from ponderosa.measure.environment import environment
from ponderosa.ponder import Ponder
from ponderosa.steps import TransformerStep

PEER, TOKENS, BATCHES, SECONDS = "ponder-transformer", 32, 4, 3.0
LAMBDA_P = 0.2  # the peer's default: its limit follows from it, 13 steps


@dataclass(frozen=True)
class Shape:
    width: int
    heads: int
    length: int
    batch: int


SHAPES = (Shape(64, 4, 24, 64), Shape(128, 4, 64, 16), Shape(384, 6, 100, 8), Shape(128, 4, 512, 2))
"""The small and the large size of C-PVR, one between them, and the length of the peer's own example."""


def bench_transformer(shapes: tuple[Shape, ...] = SHAPES, seconds: float = SECONDS) -> dict[str, Any]:
    """Race training, and inference with halting, at every shape; the candidates take turns. The 10th percentile counts in
    training; in inference the median, since the peer draws its steps anew each time, and a quick turn may be a lucky one."""
    if importlib.util.find_spec("ponder_transformer") is None:
        raise ModuleNotFoundError(f"{PEER} is not installed: {INSTALL}")
    with one_thread():
        rows = [row for shape in shapes for row in (_training(shape, seconds), *_inference(shape, seconds))]
    return {"benchmark": "transformer", "environment": {**environment(PEER), "threads": 1}, "rows": rows}


class Embedding(nn.Module):
    """Tokens and their positions."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(TOKENS, shape.width), nn.Embedding(shape.length, shape.width)

    def forward(self, x: Tensor) -> Tensor:
        return self.tokens(x) + self.positions.weight[: x.shape[1]]


def contestants(shape: Shape) -> tuple[Ponder, Any]:
    """Ours and the peer's, with the same weights."""
    from ponder_transformer import PonderTransformer

    torch.manual_seed(0)
    peer = PonderTransformer(
        num_tokens=TOKENS, dim=shape.width, max_seq_len=shape.length, causal=False, dim_head=shape.width // shape.heads,
        heads=shape.heads, ponder_lambda_p=LAMBDA_P,
    )  # fmt: skip
    step = TransformerStep(shape.width, shape.heads)
    head = nn.Sequential(nn.LayerNorm(shape.width), nn.Linear(shape.width, TOKENS))
    halting = PonderNet(lambda_p=LAMBDA_P, kl="reverse")
    net = Ponder(step, halting, head=head, max_steps=peer.train_max_steps, encoder=Embedding(shape))
    _share(net, peer)
    return net, peer


@torch.no_grad()
def _share(net: Any, peer: Any) -> None:
    block, theirs = net.step.layers[0], peer.block
    query, key_value = theirs.attn.fn.to_qkv.weight.split([block.size, 2 * block.size])
    for ours, weight in ((block.query, query), (block.key_value, key_value)):
        ours.weight.copy_(weight)
        ours.bias.zero_()  # the peer has none
    pairs = [
        (block.out, theirs.attn.fn.to_out), (block.mlp, theirs.ff.fn), (block.norm_attention, theirs.attn.norm),
        (block.norm_mlp, theirs.ff.norm), (net.head, peer.to_logits), (net.encoder.tokens, peer.token_emb),
        (net.encoder.positions, peer.pos_emb),
    ]  # fmt: skip
    for ours, other in pairs:
        ours.load_state_dict(other.state_dict())


def set_gate(net: Any, peer: Any, ours: float, theirs: float) -> None:
    """The halting probability of every step, whatever the state."""
    for gate, probability in ((net.halting.gate, ours), (peer.block.to_halt_logits[0], theirs)):
        nn.init.zeros_(gate.weight)
        nn.init.constant_(gate.bias, float(torch.tensor(probability).logit()))


def expected_steps(halt: list[float]) -> float:
    """The mean number of steps, given the probability to halt at each of them but the last, where all end."""
    alive, steps = 1.0, 0.0
    for probability in [*halt[:-1], 1.0]:
        steps += alive
        alive *= 1 - probability
    return steps


def equal_gate(gate: float, limit: int) -> float:
    """Our halting probability with which we take as many steps as the peer with its own: it halts with p_n at step n."""
    wanted = expected_steps([gate * (1 - gate) ** n for n in range(limit)])
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if expected_steps([middle] * limit) > wanted else (low, middle)
    return low


def _training(shape: Shape, seconds: float) -> dict[str, Any]:
    net, peer = contestants(shape)
    x, y = torch.randint(TOKENS, (2, shape.batch, shape.length)).clamp_min(1)

    def step(module: nn.Module, loss: Callable[[], Tensor]) -> Callable[[], object]:
        optimizer = torch.optim.Adam(module.parameters(), lr=1e-9, fused=True)

        def run() -> None:
            loss().backward()
            optimizer.step()
            optimizer.zero_grad()

        return run

    runs = {
        "ours": step(net.train(), lambda: net.loss(net(x), y, nn.functional.cross_entropy)),
        "peer": step(peer.train(), lambda: peer(x, labels=y)),
    }
    return _row(shape, "training", runs, seconds, 1, 0.1) | {"steps": net.max_steps, "peer_steps": peer.train_max_steps}


def _inference(shape: Shape, seconds: float) -> list[dict[str, Any]]:
    net, peer = contestants(shape)
    net.eval()
    peer.eval()
    batches = torch.randint(TOKENS, (BATCHES, shape.batch, shape.length))
    rows = []
    for kind, gate in (("the same gate, 1/2", 0.5), ("equal steps, gate 1/2", 0.5), ("equal steps, gate 1/5", LAMBDA_P)):
        set_gate(net, peer, equal_gate(gate, net.max_steps) if "equal" in kind else gate, gate)
        runs = {"ours": _answers(net, batches), "peer": _answers(peer, batches)}
        found = _row(shape, f"inference, {kind}", runs, seconds, BATCHES, 0.5)
        steps = _mean([solution.steps for solution in runs["ours"]()])
        theirs = _mean([last + 1 for _ in range(3) for _, last in runs["peer"]()])  # it draws anew each time
        rows.append(found | {"steps": steps, "peer_steps": theirs})
    return rows


def _answers(module: nn.Module, batches: Tensor) -> Callable[[], list[Any]]:
    return torch.no_grad()(lambda: [module(x) for x in batches])


def _mean(steps: list[Tensor]) -> float:
    return round(float(torch.cat(steps).float().mean()), 2)


def _row(
    shape: Shape, what: str, runs: Mapping[str, Callable[[], object]], seconds: float, batches: int, counts: float
) -> dict[str, Any]:  # fmt: skip
    times = {name: percentile(turns, counts) / batches for name, turns in alternate_for(dict(runs), seconds).items()}
    return {
        **asdict(shape), "what": what, "ms": round(1000 * times["ours"], 2), "peer_ms": round(1000 * times["peer"], 2),
        "speedup": round(times["peer"] / times["ours"], 2),
    }  # fmt: skip
