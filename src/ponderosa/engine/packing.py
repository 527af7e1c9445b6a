"""One step of the units that need it: halted tokens and padding are left out wherever the step allows it."""

from torch import Tensor

from ponderosa.engine.ledger import frozen
from ponderosa.host import Array, host, tensor
from ponderosa.steps.base import Step
from ponderosa.steps.tokens import Tokens
from ponderosa.steps.transformer import TokenStep
from ponderosa.tree import Tree, tree_map


def advance(step: Step, context: Tree, state: Tree, n: int | Tensor, active: Tokens | None, steps: int = 1) -> Tree:
    """The state after step `n`, or several from there on, where only `active` tokens change (None: everything does)."""
    if active is None or active.all:
        return step.advance_by(context, state, n, steps)
    for k in range(steps if len(active) else 0):
        state = _advance_some(step, context, state, n + k, active)
    return state


def _advance_some(step: Step, context: Tree, state: Tree, n: int | Tensor, active: Tokens) -> Tree:
    if isinstance(step, TokenStep):
        return step.advance_packed(context, state, n, active)
    if step.tokenwise:
        return _advance_rows(step, context, state, n, active)
    return frozen(tensor(active.chosen, step.read(state)), step.advance(context, state, n), state)


def _advance_rows(step: Step, context: Tree, state: Tree, n: int | Tensor, active: Tokens) -> Tree:
    """The active tokens as rows of their own: nothing else is computed."""
    if isinstance(n, Tensor):
        n = active.pack(n[:, None].expand(active.chosen.shape))
    after = step.advance(tree_map(active.pack, context), tree_map(active.pack, state), n)
    return tree_map(active.put, state, after)


def real_tokens(step: Step, state: Tensor, mask: Tensor | None) -> Array | None:
    """What is worth computing where nothing halts on its own: tokens that are not padding, or None for everything."""
    packs = isinstance(step, TokenStep) or step.tokenwise
    if mask is None or not packs or state.shape[:2] != mask.shape or state.ndim < 3:
        return None
    return host(mask)
