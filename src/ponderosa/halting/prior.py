"""The prior over the halting step that PonderNet is drawn towards, and how far it is from it."""

import torch
from torch import Tensor


def geometric_prior(lambda_p: float, steps: int) -> Tensor:
    """The geometric distribution over 1..steps `[N]`, cut off there and renormalised.

    >>> geometric_prior(0.5, 2)
    tensor([0.6667, 0.3333])
    """
    if not 0 < lambda_p < 1:
        raise ValueError(f"lambda_p={lambda_p}: it must lie between 0 and 1; the prior's mean is about 1/lambda_p steps")
    if steps < 1:
        raise ValueError(f"steps={steps}: a prior needs at least one step")
    powers = [(1 - lambda_p) ** n for n in range(steps)]
    total = sum(powers)
    return torch.tensor([power / total for power in powers])


def kl_to_prior(weights: Tensor, prior: Tensor, reverse: bool = False) -> Tensor:
    """KL(weights || prior) `[...]` for weights `[N, ...]` and a prior `[N]`; finite where a weight is 0.

    `reverse` gives KL(prior || weights), which is what most public implementations compute.

    >>> kl_to_prior(torch.tensor([1.0, 0.0]), torch.tensor([0.5, 0.5]))
    tensor(0.6931)
    """
    if prior.shape != weights.shape[:1]:
        raise ValueError(f"the prior is {list(prior.shape)}: one number for each of the {len(weights)} steps is needed")
    prior = prior.to(weights).view(-1, *(1,) * (weights.ndim - 1))
    tiny = torch.finfo(weights.dtype).tiny
    log_ratio = weights.clamp_min(tiny).log() - prior.clamp_min(tiny).log()
    return (-prior * log_ratio if reverse else weights * log_ratio).sum(0)
