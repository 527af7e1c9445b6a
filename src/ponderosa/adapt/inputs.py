"""What a model of `transformers` is called with, as the engines take it."""

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from ponderosa.halting.losses import Criterion
from ponderosa.tree import Tree

INPUTS = ("input_ids", "token_type_ids", "position_ids", "inputs_embeds", "pixel_values")


def model_inputs(given: dict[str, Tensor | None]) -> Tree:
    """What the embeddings take, examples first: the ids or the images alone where nothing else is given."""
    unknown = [name for name in given if name not in INPUTS]
    if unknown:
        raise TypeError(f"unknown inputs {unknown}: an adaptive model takes {', '.join(INPUTS)}, attention_mask, depth, key")
    found = {name: tensor for name, tensor in given.items() if tensor is not None}
    if len({"input_ids", "inputs_embeds", "pixel_values"} & found.keys()) != 1:
        raise ValueError("give either input_ids or inputs_embeds, or pixel_values to a model of images")
    examples = len(next(iter(found.values())))
    if "position_ids" in found:
        found["position_ids"] = found["position_ids"].expand(examples, -1)
    return next(iter(found.values())) if found.keys() in ({"input_ids"}, {"pixel_values"}) else found


def real_tokens(attention_mask: Tensor | None) -> Tensor | None:
    """True for what is not padding, or None where nothing is."""
    if attention_mask is None:
        return None
    if attention_mask.ndim != 2:
        raise ValueError(f"the attention mask is {list(attention_mask.shape)}: [batch, token] is needed, 0 for padding")
    mask = attention_mask.bool()
    return None if bool(mask.all()) else mask


def criterion(config: Any) -> Criterion:
    """The loss that the config's kind of problem asks for."""
    if config.problem_type == "multi_label_classification":
        return F.binary_cross_entropy_with_logits
    regression = config.problem_type == "regression" or (config.problem_type is None and config.num_labels == 1)
    return _squared_error if regression else F.cross_entropy


def _squared_error(output: Tensor, target: Tensor) -> Tensor:
    return F.mse_loss(output, target.view_as(output).to(output.dtype), reduction="none")
