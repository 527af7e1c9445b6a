"""The halting unit: a classifier at the bottom names each unit's depth (Elbayad et al., 2020; Liu et al., 2021)."""

import torch
from torch import Tensor, nn

from ponderosa.halting.base import Halting, Memory, Unit, Units, Verdict, check_choice
from ponderosa.halting.exits import log_probabilities
from ponderosa.halting.gate import read_units
from ponderosa.halting.knob import Knob
from ponderosa.halting.losses import Criterion, answer_loss, unit_losses
from ponderosa.solution import Solution


def pseudo_labels(outputs: Tensor, target: Tensor, losses: Tensor | None = None, penalty: float | None = None) -> Tensor:
    """The depth that each answer needed, 1..N, from the answers of all layers `[N, ..., classes]` and the classes `[...]`.

    The first layer whose prediction is right, N where none is; with a penalty, the layer n with the least loss + penalty * n,
    from the losses of all layers `[N, ...]`.

    >>> outputs = torch.tensor([[[2.0, 1.0]], [[1.0, 2.0]], [[1.0, 3.0]]])
    >>> pseudo_labels(outputs, torch.tensor([1])), pseudo_labels(outputs, torch.tensor([0]))
    (tensor([2]), tensor([1]))
    """
    layers = torch.arange(1, len(outputs) + 1, device=outputs.device)
    if penalty is not None:
        assert losses is not None, "a penalty weighs losses"
        return (losses + penalty * layers.view(-1, *(1,) * (losses.ndim - 1))).argmin(0) + 1
    right = log_probabilities(outputs).argmax(-1) == target
    return torch.where(right.any(0), right.to(torch.uint8).argmax(0) + 1, len(outputs))


class HaltingUnit(Halting):
    """Before the first layer, one linear layer names the depth of every token, or of every example.

    It is trained on pseudo-labels: the depth that the example needed, given to all its tokens. The answers of all layers
    are trained, too, through the one head they share.

    Args:
        layers: the deepest depth that can be named.
        penalty: of a layer in the pseudo-labels' loss; without one, the first layer that is right counts.
        weight: of the unit's own loss.
        unit: what halts on its own, "token" or "example".
        size: of the state that is read; taken from the step where it says.
        shift: in evaluation, added to every depth that is named.
    """

    trains_every_step = True
    weighs_answers = False

    def __init__(
        self, layers: int, *, penalty: float | None = None, weight: float = 1.0, unit: Unit = "token", size: int | None = None,
        shift: int = 0,
    ):  # fmt: skip
        super().__init__()
        if layers < 1 or not weight >= 0:
            raise ValueError(f"layers={layers}, weight={weight}: at least one layer, and a weight that is not negative")
        check_choice("unit", unit, "example", "token", why="each unit has a depth of its own")
        self.layers, self.penalty, self.weight, self.unit, self.shift = layers, penalty, weight, unit, shift
        self.gate: nn.Linear | None = None if size is None else nn.Linear(size, layers)

    @property
    def hard(self) -> bool:
        return not self.training

    def build(self, size: int | None) -> None:
        if self.gate is None and size is not None:
            self.gate = nn.Linear(size, self.layers)

    def begin(self, state: Tensor, units: Units) -> Memory:
        assert self.gate is not None, "say how large the state is: HaltingUnit(size=...)"
        logits = self.gate(read_units(state, self.unit, units.mask))
        return {"p": logits.softmax(-1)} if self.training else {"depth": logits.argmax(-1) + 1 + self.shift}

    def depths(self, memory: Memory) -> Tensor | None:
        return memory.get("depth")

    def update(self, n: int | Tensor, state: Tensor, output: Tensor | None, memory: Memory) -> Verdict:
        if "depth" in memory:
            return None, memory["depth"] <= n, memory
        rest = memory["p"][..., int(n) - 1 :]
        left = rest.sum(-1)  # 1 minus the shares so far, but exact where hardly anything is left
        share = rest[..., 0] if rest.shape[-1] else left
        return share, torch.zeros_like(share, dtype=torch.bool), {**memory, "left": left}

    def knob(self, limit: int) -> Knob:
        return Knob(self, "shift", limit - 1, 1 - limit)

    def loss(self, solution: Solution, target: Tensor, criterion: Criterion) -> Tensor:
        if solution.outputs is None:
            return answer_loss(solution, target, criterion)
        losses = unit_losses(solution.outputs, target, criterion, solution.mask, tokens=solution.weights.ndim > 2)
        depth = self._depths(solution, target, losses.detach())
        return losses.mean() + self.weight * depth_loss(solution, depth)

    def _depths(self, solution: Solution, target: Tensor, losses: Tensor) -> Tensor:
        """The pseudo-labels of all units."""
        assert solution.outputs is not None
        outputs, units = solution.outputs.detach(), solution.weights.shape[1:]
        depth = pseudo_labels(outputs, target.reshape(outputs.shape[1:-1]), losses, self.penalty)
        if depth.ndim < len(units):
            depth = depth[:, None].expand(units)
        if depth.ndim > len(units):  # an example is as deep as its deepest token
            depth = (depth if solution.mask is None else depth * solution.mask).amax(1)
        return depth.clamp(1, min(self.layers, solution.max_steps))


def depth_loss(solution: Solution, depth: Tensor) -> Tensor:
    """The cross-entropy of the depths `[U]` under the distribution that the solution's weights are; padding left out."""
    likely = solution.weights.gather(0, depth[None] - 1)[0]
    losses = -likely.clamp_min(torch.finfo(likely.dtype).tiny).log()
    per_token = solution.mask is not None and losses.shape == solution.mask.shape
    return losses[solution.mask].mean() if per_token else losses.mean()
