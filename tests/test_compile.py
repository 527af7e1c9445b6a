"""`torch.compile` takes a network and its loss in one graph, and both give the same numbers as without it."""

import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import ponderosa as po

HALTINGS: dict[str, Callable[[], po.Halting]] = {
    "PonderNet": po.PonderNet,
    "PonderNet, reverse": lambda: po.PonderNet(kl="reverse"),
    "ACT": po.ACT,
    "ACT, few steps": lambda: po.ACT(bias=0.0),
    "LAC": po.LAC,
    "Fixed": po.Fixed,
}
CRITERIA = {"module": nn.BCEWithLogitsLoss(), "function": nn.functional.binary_cross_entropy_with_logits}


@pytest.mark.parametrize("halting", HALTINGS)
@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])  # the GRU's steps in C, and in torch
def test_one_graph(halting: str, criterion: str, dtype: torch.dtype) -> None:
    """The backend that only runs the graph: what is tested is that there is one, and what stands in it."""
    torch.manual_seed(0)
    net = po.Ponder(po.GRUStep(3, 4), HALTINGS[halting](), head=nn.Linear(4, 1), max_steps=6).to(dtype)
    x, y = torch.randn(5, 3).to(dtype), torch.randint(0, 2, (5, 1)).to(dtype)

    def loss(x: Tensor, y: Tensor) -> Tensor:
        return net.loss(net(x), y, CRITERIA[criterion])

    torch.compiler.reset()
    losses = [loss(x, y), torch.compile(loss, fullgraph=True, backend="eager")(x, y)]
    torch.testing.assert_close(losses[0], losses[1])
    parameters = list(net.parameters())
    gradients = [torch.autograd.grad(value, parameters, materialize_grads=True) for value in losses]
    torch.testing.assert_close(gradients[0], gradients[1])


def test_a_setting_that_changes() -> None:
    """The compiler then takes it for a symbol, and must still find the graph that it has made."""
    torch.manual_seed(0)
    net = po.Ponder(po.GRUStep(3, 4), po.ACT(bias=0.0), max_steps=6)
    x = torch.randn(5, 3)
    torch.compiler.reset()
    compiled = torch.compile(net, backend="eager")
    for eps in (0.01, 0.5, 0.3, 0.2, 0.05):
        net.halting.eps = eps
        torch.testing.assert_close(compiled(x).output, net(x).output)


def test_who_does_not_compile_does_not_wait_for_the_compiler() -> None:
    code = "from ponderosa import *; import sys; sys.exit('torch._dynamo' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
