"""Whether somebody wants to see a module being called: then nothing may go around its call."""

from torch import nn
from torch.nn.modules.module import _has_any_global_hook


def hooked(module: nn.Module) -> bool:
    """Whether anything hangs on the module's call or on its gradient, or on those of all modules."""
    hooks = module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks
    return any(hooks) or _has_any_global_hook()
