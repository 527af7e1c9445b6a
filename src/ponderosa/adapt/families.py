"""The encoders of `transformers` that can be made adaptive, and where each keeps its parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ponderosa.adapt.heads import classification_head
from ponderosa.adapt.layers import BertParts, BiasedStep, DistilBertParts, MPNetParts, ViTParts
from ponderosa.steps.transformer import TokenStep
from ponderosa.tree import Tree


@dataclass(frozen=True)
class Family:
    """Encoders built alike."""

    layers: str
    """Where the layers are in the base model."""
    parts: type[nn.Module]
    """A layer in three parts."""
    norm: str = ""
    """The norm after the last layer, if there is one."""
    bias: str = ""
    """The module that knows what attention adds for the distance of two tokens, if it adds anything."""

    def step(self, model: Any, frozen_kv: bool) -> TokenStep:
        """The layers of a model as a step, the modules shared with it."""
        base, config = model.base_model, model.config
        layers = [self.parts(layer, config.num_attention_heads) for layer in base.get_submodule(self.layers)]
        if self.bias:
            bias = PositionBias(base.get_submodule(self.bias))
            return BiasedStep(layers, bias, size=config.hidden_size, frozen_kv=frozen_kv)
        return TokenStep(layers, size=config.hidden_size, frozen_kv=frozen_kv)

    def head(self, model: Any) -> nn.Module | None:
        """What comes after the layers, the modules shared with the model; None for a bare encoder."""
        norm = model.base_model.get_submodule(self.norm) if self.norm else None
        return norm if model.base_model is model else classification_head(model, norm)


class Embeddings(nn.Module):
    """The first states from token ids `[batch, token]`, from a dict of what the model's embeddings take, or from images."""

    def __init__(self, model: Any):
        super().__init__()
        self.embeddings = model.base_model.embeddings
        self.project = getattr(model.base_model, "embeddings_project", None)  # ELECTRA

    def forward(self, x: Tree) -> Tensor:
        state = self.embeddings(**x) if isinstance(x, dict) else self.embeddings(x)
        return state if self.project is None else self.project(state)


class PositionBias(nn.Module):
    """MPNet's bias for the distance of two tokens."""

    def __init__(self, encoder: Any):
        super().__init__()
        self.relative_attention_bias = encoder.relative_attention_bias
        self.bucket = encoder.relative_position_bucket
        self.buckets = encoder.config.relative_attention_num_buckets

    def forward(self, state: Tensor) -> Tensor:
        """`[batch, head, token, token]`, or the same for all examples."""
        places = torch.arange(state.shape[1], device=state.device)
        buckets = self.bucket(places[None, :] - places[:, None], num_buckets=self.buckets)
        return self.relative_attention_bias(buckets).movedim(-1, 0)[None]


_BERT = Family("encoder.layer", BertParts)
_VIT = Family("layers", ViTParts, norm="layernorm")
FAMILIES = {
    "bert": _BERT, "roberta": _BERT, "xlm-roberta": _BERT, "camembert": _BERT, "electra": _BERT,
    "distilbert": Family("transformer.layer", DistilBertParts), "mpnet": Family("encoder.layer", MPNetParts, bias="encoder"),
    "vit": _VIT, "deit": _VIT,
}  # fmt: skip
"""By the name that a model's config gives its type."""

PREFIX = "ponderosa-"
"""Before the type of a model that is adaptive already."""
KINDS = ("ForSequenceClassification", "ForImageClassification")


def family(model: Any) -> Family:
    """The family of a model, or an error that lists those that are supported."""
    from transformers import PreTrainedModel

    supported = f"{', '.join(FAMILIES)}, as a bare encoder or with a head {' or '.join(KINDS)}"
    if not isinstance(model, PreTrainedModel):
        raise TypeError(f"the model is {type(model).__name__}: a transformers model is needed, one of {supported}")
    name = type(model).__name__
    kind = model.config.model_type.removeprefix(PREFIX)
    if kind not in FAMILIES or not (model.base_model is model or name.endswith(KINDS)):
        raise ValueError(f"{name} (type {kind!r}) cannot be made adaptive: supported are {supported}")
    if getattr(model.config, "is_decoder", False):
        raise ValueError(f"{name} is a decoder (config.is_decoder), whose tokens see only earlier ones: use an encoder")
    return FAMILIES[kind]
