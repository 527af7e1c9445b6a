"""`ponderosa bench train`: how fast networks train, ours and others', on parity with one thread.

A run is the whole training step: forward pass, loss, backward pass, clipping, Adam.
"""

from __future__ import annotations

import importlib.util
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

from ponderosa.bench.peers import INSTALL, Contestant, adaptive_gru, labml, share_weights
from ponderosa.bench.timing import Worker, alternate, one_thread, percentile, serve, time_runs
from ponderosa.halting import ACT, PonderNet
from ponderosa.measure.environment import environment
from ponderosa.ponder import Ponder
from ponderosa.steps import GRUStep
from ponderosa.tasks import Parity

SIZE, HIDDEN, STEPS, BATCH = 8, 64, 20, 128
BETA, LAMBDA_P, TAU, EPS, CLIP = 0.01, 0.2, 0.001, 0.01, 1.0
RATE = 1e-9  # too small to change how deep the networks go while they are timed
FEW, ALL = -1.0, -20.0  # the halting unit's bias: the peer's own default, and one with which nothing halts before the limit
EARLIER = 0.27  # the peer halts as if eps were larger by its newest halting value, here sigmoid(-1)

PONDERNET, ACT_FEW, ACT_ALL = "PonderNet", "ACT, few steps", f"ACT, {STEPS} steps"
LABML, PEER_ACT = "labml-nn", "pytorch-adaptive-computation-time"
PEERS = {PONDERNET: LABML, ACT_FEW: PEER_ACT, ACT_ALL: PEER_ACT}
MODULES = {LABML: "labml_nn.adaptive_computation.ponder_net", PEER_ACT: "pytorch_adaptive_computation_time"}
EAGER, COMPILED = "ponderosa eager", "ponderosa compiled"


def bench_train(*, rounds: int = 30, compile: bool = True, progress: bool = True) -> dict[str, Any]:
    """Race the training throughput of PonderNet and ACT against other libraries.

    Every candidate has a process of its own and they take turns, so that a disturbance hits all of them; the 10th
    percentile of all runs counts. A library that is not installed is left out, with a note that says how to install it.
    """
    rows: list[dict[str, Any]] = []
    with tqdm(total=rounds * len(PEERS), disable=not progress, unit="round") as bar:
        for task, peer in PEERS.items():
            bar.set_description(task)
            rows += _race(task, [EAGER, *([COMPILED] if compile else []), peer], rounds, bar.update)
    peers = [name for name in MODULES if _installed(name)]
    task = f"parity, length {SIZE}, hidden {HIDDEN}, {STEPS} steps, batch {BATCH}"
    imports = {
        "ponderosa": _seconds("from ponderosa import *"),
        **{name: _seconds(f"import {MODULES[name]}") for name in peers},
    }
    return {
        "benchmark": "train", "environment": {**environment(*peers), "threads": 1, "task": task}, "rows": rows,
        "imports": imports,
    }  # fmt: skip


def _race(task: str, names: list[str], rounds: int, after_round: Callable[[], object]) -> list[dict[str, Any]]:
    missing = [name for name in names if not _installed(name)]
    with tempfile.TemporaryDirectory() as cache:  # an empty one, so that compiling takes what it takes a new user
        workers = {
            name: Worker(__spec__.name, task, name, TORCHINDUCTOR_CACHE_DIR=cache) for name in names if name not in missing
        }
        try:
            starts = {name: worker.ask("start") for name, worker in workers.items()}
            seconds = {name: percentile(runs) for name, runs in alternate(workers, rounds, after_round).items()}
            memory = {name: worker.ask("memory") for name, worker in workers.items()}
        finally:
            for worker in workers.values():
                worker.close()
    peer = seconds.get(PEERS[task])
    rows = [
        {
            "task": task, "who": name, "ms": round(1000 * s, 3), "examples_per_second": round(BATCH / s),
            "speedup": None if peer is None else round(peer / s, 2), **starts[name], "memory_mb": memory[name],
        }
        for name, s in seconds.items()
    ]  # fmt: skip
    return rows + [{"task": task, "who": f"{name} (not installed: {INSTALL})"} for name in missing]


def contestant(task: str, who: str) -> Contestant:
    """A network ready to train, with the same weights whoever it is."""
    torch.manual_seed(0)
    bias = FEW if task == ACT_FEW else ALL
    halting: ACT | PonderNet = ACT(tau=TAU, eps=EPS + EARLIER if bias == FEW else EPS, bias=bias)
    if task == PONDERNET:
        halting = PonderNet(beta=BETA, lambda_p=LAMBDA_P, kl="reverse")
    net = Ponder(GRUStep(SIZE, HIDDEN), halting, head=nn.Linear(HIDDEN, 1), max_steps=STEPS)
    assert halting.gate is not None
    nn.init.zeros_(halting.gate.weight)  # only the bias decides how deep the examples go: equally deep on both sides
    if who in (EAGER, COMPILED):
        return _ours(net, compiled=who == COMPILED)
    peer = labml(SIZE, HIDDEN, STEPS, BETA, LAMBDA_P) if who == LABML else adaptive_gru(SIZE, HIDDEN, STEPS, TAU, EPS, bias)
    share_weights(net, peer.net)
    return peer


def _ours(net: Ponder, compiled: bool) -> Contestant:
    def loss(x: Tensor, y: Tensor) -> Tensor:
        return net.loss(net(x), y, nn.functional.binary_cross_entropy_with_logits)

    return Contestant(net, torch.compile(loss, fullgraph=True) if compiled else loss, lambda x: net(x).steps)


def training_step(contestant: Contestant, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor) -> None:
    """What every candidate's run is."""
    contestant.loss(x, y).backward()
    nn.utils.clip_grad_norm_(contestant.parameters, CLIP)
    optimizer.step()
    optimizer.zero_grad()


def work(task: str, who: str) -> None:
    """In a worker: build the candidate and answer the questions about it."""
    runner = contestant(task, who)
    batch = Parity(SIZE).batch("train", 0, BATCH)
    # fused, as `ponderosa train` has it, for the peers as well: what is raced is not the optimizer
    optimizer = torch.optim.Adam(runner.parameters, lr=RATE, fused=True)

    def run() -> None:
        training_step(runner, optimizer, batch.x, batch.y)

    def start() -> dict[str, float | None]:
        first = time_runs(run, 1)[0]
        time_runs(run, 20)
        with torch.no_grad():
            steps = runner.steps(batch.x).float().mean().item()
        return {"mean_steps": round(steps, 2), "compile_seconds": round(first, 1) if who == COMPILED else None}

    with one_thread():
        serve({"start": start, "turn": lambda: time_runs(run), "memory": _peak_memory})


def _peak_memory() -> int:
    """The most that this process has held, in megabytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6)


def _seconds(statement: str, runs: int = 5) -> float:
    """What an import takes in a new process, once torch is there."""
    code = f"import torch, time; start = time.perf_counter()\n{statement}\nprint(time.perf_counter() - start)"
    found = [float(subprocess.check_output([sys.executable, "-c", code], text=True)) for _ in range(runs)]
    return round(min(found), 3)


def _installed(name: str) -> bool:
    return name not in MODULES or importlib.util.find_spec(MODULES[name].partition(".")[0]) is not None


if __name__ == "__main__":
    work(*sys.argv[1:])
