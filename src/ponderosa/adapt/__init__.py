"""Pretrained encoders made adaptive: `po.adapt(model, halting)`. This module is the function, too."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ponderosa.adapt.families import PREFIX
from ponderosa.adapt.heads import MaxMeanClassifier
from ponderosa.halting.base import Halting

if TYPE_CHECKING:
    from ponderosa.adapt.model import Head

__all__ = ["MaxMeanClassifier", "adapt", "load"]


def adapt(
    model: Any, halting: Halting, *, in_place: bool = False, head: Head = "own", frozen_kv: bool | None = None
) -> Any:  # fmt: skip
    """Make a model of `transformers` adaptive: BERT, RoBERTa, XLM-R, CamemBERT, ELECTRA, DistilBERT, MPNet, ViT or DeiT.

    The result is called, trained, saved and loaded like the original, whose class it extends; `fast.net` is the
    `Ponder` that runs it. Halted tokens and examples, and padding, are not computed. At full depth the answers are the
    original's. In training everything is as in the original but dropout on attention's probabilities, which is left out.

    Args:
        model: a bare encoder, or one with a head for sequence or image classification.
        halting: any mechanism. Exits get a copy of the head for every layer.
        in_place: whether the model itself becomes adaptive; if not, a copy does.
        head: "own" for the model's, "max-mean" for a new classifier on ReLU([max; mean]) of the tokens.
        frozen_kv: whether a halted token keeps the keys and values of its last layer (see `TokenStep`); if not said, it does
            in a model that is adaptive already and was trained so.
    """
    check_installed()
    from ponderosa.adapt.model import adapt as make
    from ponderosa.adapt.registry import register

    fast = make(model, halting, in_place=in_place, head=head, frozen_kv=frozen_kv)
    register(fast.config.model_type.removeprefix(PREFIX))
    return fast


def load(folder: str | Path, **options: Any) -> Any:
    """An adaptive model that `save_pretrained` wrote; `options` are those of `from_pretrained`."""
    check_installed()
    from transformers import PretrainedConfig

    from ponderosa.adapt.registry import AUTO, opens, register

    facts = PretrainedConfig.get_config_dict(folder)[0]
    if facts.get("model_type", "").startswith(PREFIX):
        plain = register(facts["model_type"].removeprefix(PREFIX))
        for made in (opens(auto, plain) for auto in AUTO):
            if made is not None and made.__name__ in facts["architectures"]:
                return made.from_pretrained(folder, **options)
    raise ValueError(f"{folder} holds {facts.get('architectures')}: not a model that po.adapt made and save_pretrained wrote")


def check_installed() -> None:
    """An error that names the install command, where `transformers` is missing."""
    if find_spec("transformers") is None:
        raise ImportError('transformers is not installed: pip install "ponderosa[text]"')


class _Function(ModuleType):
    """`po.adapt` is this module whichever way it was imported, so the module must be callable."""

    __call__ = staticmethod(adapt)


sys.modules[__name__].__class__ = _Function
