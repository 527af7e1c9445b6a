"""When gathering the examples that go on costs more than it saves."""

from weakref import WeakKeyDictionary

from torch import Tensor

from ponderosa.steps.base import Step

# Seconds, roughly, on one core: a wrong guess costs a little time and never changes the result.
GATHER = 60e-6
"""To select the rows of a few small tensors."""
BYTE = 1 / 15e9
"""To copy one byte of state, read and written."""
CALL = 60e-6
"""To take a step at all: where others wait for a slot, each slot is worth its part of it."""
OPERATION = 1 / 60e9
"""For one operation of a matrix product."""


class Thrift:
    """Halted examples are carried along until what they have cost, the next step included, would have paid for leaving them.

    So never more than twice the cost of the better choice is spent, whatever the depths to come.
    """

    def __init__(self, step: Step, state: Tensor, gathers: int = 1, slots: int | None = None):
        rows = max(state.shape[0], 1)
        positions = state.numel() / rows / (step.size or state.shape[-1])
        self.row = 2 * _weights(step) * positions * OPERATION + (CALL / slots if slots else 0)
        self.copy = 2 * state.element_size() * state.numel() / rows * BYTE  # and what is carried with it
        self.fixed = gathers * GATHER
        self.wasted = 0.0

    def pays(self, halted: int, going: int) -> bool:
        """Whether to leave the halted examples behind before the next step."""
        self.wasted += halted * self.row
        if not halted or self.wasted < self.fixed + going * self.copy:
            return False
        self.wasted = 0.0
        return True


_counted: WeakKeyDictionary[Step, float] = WeakKeyDictionary()


def _weights(step: Step) -> float:
    """The parameters that one step uses: counted once, since walking through a large model takes as long as a small step."""
    if step not in _counted:
        weights = sum(p.numel() for p in step.parameters())
        # quantised layers keep their weights elsewhere, but still say how large they are
        linear = sum(getattr(m, "in_features", 0) * getattr(m, "out_features", 0) for m in step.modules())
        _counted[step] = max(weights, linear) / (1 if step.tied else step.max_steps or 1)
    return _counted[step]
