"""Other libraries' PonderNet and ACT, called as their own examples call them.

They need none of their dependencies here, whose pins conflict with ours: see `INSTALL`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

INSTALL = "pip install --no-deps -r benchmarks/peers.txt"


@dataclass
class Contestant:
    """A network in training, whoever wrote it."""

    net: nn.Module
    loss: Callable[[Tensor, Tensor], Tensor]
    """From the input and the target `[batch, 1]` to the loss."""
    steps: Callable[[Tensor], Tensor]
    """How often the cell was applied, for each example."""

    def __post_init__(self) -> None:
        self.parameters = list(self.net.parameters())


def labml(size: int, hidden: int, steps: int, beta: float, lambda_p: float) -> Contestant:
    """labml-nn's PonderNet. It applies its cell once more than it uses, and halts by a draw of its own for its metrics."""
    from labml_nn.adaptive_computation.ponder_net import ParityPonderGRU, ReconstructionLoss, RegularizationLoss

    net = ParityPonderGRU(size, hidden, steps)
    reconstruction = ReconstructionLoss(nn.BCEWithLogitsLoss(reduction="none"))
    regularization = RegularizationLoss(lambda_p, steps)

    def loss(x: Tensor, y: Tensor) -> Tensor:
        weights, answers, _, _ = net(x)
        return reconstruction(weights, answers, y[:, 0]) + beta * regularization(weights)

    return Contestant(net, loss, lambda x: torch.full(x.shape[:1], steps))


class AdaptiveGRU(nn.Module):
    """pytorch-adaptive-computation-time's wrapper around a GRU cell, and a linear head.

    Its limit counts one more step than it takes, hence `steps + 1`. It adds the newest halting value to the sum twice when
    it asks whether a unit is done, and so halts a step earlier than Graves: as if eps were larger by that value.
    """

    def __init__(self, size: int, hidden: int, steps: int, tau: float, eps: float, bias: float):
        from pytorch_adaptive_computation_time import AdaptiveCellWrapper

        super().__init__()
        cell = nn.GRUCell(size + 1, hidden)  # one more input, which is 1 at the first step
        self.limit = steps
        self.adaptive = AdaptiveCellWrapper(cell, tau, initial_halting_bias=bias, ponder_epsilon=eps, time_limit=steps + 1)
        self.head = nn.Linear(hidden, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The answer, tau times the ponder cost up to a constant, and the steps taken."""
        state, cost, steps = self.adaptive(x)
        return self.head(state), cost, steps[:, 0].clamp_max(self.limit)


def adaptive_gru(size: int, hidden: int, steps: int, tau: float, eps: float, bias: float) -> Contestant:
    """pytorch-adaptive-computation-time's ACT."""
    net = AdaptiveGRU(size, hidden, steps, tau, eps, bias)

    def loss(x: Tensor, y: Tensor) -> Tensor:
        answer, cost, _ = net(x)
        return nn.functional.binary_cross_entropy_with_logits(answer, y) + cost

    return Contestant(net, loss, lambda x: net(x)[2])


@torch.no_grad()
def share_weights(ours: Any, peer: Any) -> None:
    """Give a peer the weights of our network, so that both compute the same numbers."""
    cell, gate, head = ours.step.cell, ours.halting.gate, ours.head
    if isinstance(peer, AdaptiveGRU):
        their_cell, their_gate, their_head = peer.adaptive._cell, peer.adaptive._halting_unit[0], peer.head
        their_cell.weight_ih[:, -1] = 0  # the first-step flag, which ours does not have
    else:
        their_cell, their_gate, their_head = peer.gru, peer.lambda_layer, peer.output_layer
    their_cell.weight_ih[:, : cell.input_size] = cell.weight_ih
    for name in ("weight_hh", "bias_ih", "bias_hh"):
        getattr(their_cell, name).copy_(getattr(cell, name))
    their_gate.load_state_dict(gate.state_dict())
    their_head.load_state_dict(head.state_dict())
