"""A criterion of the task, whatever its reduction, on the weighed answer or on the answers of all steps."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ponderosa.signature import takes
from ponderosa.solution import Solution

Criterion = Callable[..., Tensor]


def answer_loss(solution: Solution, target: Tensor, criterion: Criterion) -> Tensor:
    """The criterion on the weighed answer, as most mechanisms train."""
    output, mask = solution.output, solution.mask
    if _per_token(output.shape, target, mask):
        return _losses(output[None], target, criterion, mask, 2).mean()
    return _element_losses(criterion, output, target, output.shape, target.shape).mean()


def unit_losses(
    outputs: Tensor, target: Tensor, criterion: Criterion, mask: Tensor | None = None, tokens: bool = False
) -> Tensor:
    """The criterion of each step and example `[steps, batch]`, or `[steps, batch, token]` for token targets.

    Any loss of `torch.nn` or `torch.nn.functional` will do, whatever its own reduction; so will a
    function that gives one value per element or per example: what counts is their mean over examples, so a class weight or
    an ignored target is not divided out again. Padding is weighed out of token targets. Targets
    `[batch, token]` for answers `[batch, token, classes]` are token targets; `tokens` says so of other shapes.
    """
    return _losses(outputs, target, criterion, mask, 2 if _per_token(outputs.shape[1:], target, mask, tokens) else 1)


def _losses(outputs: Tensor, target: Tensor, criterion: Criterion, mask: Tensor | None, axes: int) -> Tensor:
    """See `unit_losses`; the units have so many axes."""
    flat, targets = outputs.flatten(0, axes), target.expand(len(outputs), *target.shape).flatten(0, axes)
    losses = _element_losses(criterion, flat, targets, outputs.shape[1:], target.shape)
    losses = losses.reshape(len(outputs), *target.shape[:axes], -1)
    losses = losses.squeeze(-1) if losses.shape[-1] == 1 else losses.mean(-1)
    if axes == 2 and mask is not None:
        # the mean over all real tokens is what a caller's .mean() must give
        losses = losses * mask * (mask.numel() / mask.sum())
    return losses


def _per_token(output: torch.Size, target: Tensor, mask: Tensor | None, tokens: bool = False) -> bool:
    """Whether the target has something to say about each token of outputs of this shape, the batch first."""
    if output[0] == 0 or (mask is not None and not mask.any()):
        raise ValueError("the loss of an empty batch is not defined: skip batches without examples or real tokens")
    if target.shape[:1] != output[:1]:
        raise ValueError(f"the target is {list(target.shape)}, the output {list(output)}: their examples must agree")
    if target.ndim < 2 or target.shape[:2] != output[:2]:
        return False
    if mask is not None:
        return mask.shape == target.shape[:2]
    return tokens or (len(output) == 3 and target.ndim == 2)


def _element_losses(criterion: Criterion, outputs: Tensor, targets: Tensor, output: torch.Size, target: torch.Size) -> Tensor:
    """The criterion of each element, or of each row; the two shapes are those of one step, as the user knows them."""
    losses = _unreduced(criterion, outputs, targets)
    if losses.shape not in (outputs.shape, targets.shape, outputs.shape[:1]):
        raise ValueError(
            f"the criterion gave {list(losses.shape)} for outputs {list(output)} and targets {list(target)}, but one value per "
            "element is needed (reduction='none'), and the two shapes must fit each other: did you mean target.unsqueeze(-1)?"
        )
    return losses


def _unreduced(criterion: Criterion, outputs: Tensor, targets: Tensor) -> Tensor:
    """The criterion, one value per element, whatever its own reduction."""
    if isinstance(criterion, nn.Module) and hasattr(criterion, "reduction"):
        reduction = criterion.reduction  # set and put back: the compiler cannot copy modules
        criterion.reduction = "none"  # type: ignore[assignment]
        try:
            return criterion(outputs, targets)
        finally:
            criterion.reduction = reduction
    return criterion(outputs, targets, reduction="none") if takes(criterion, "reduction") else criterion(outputs, targets)
