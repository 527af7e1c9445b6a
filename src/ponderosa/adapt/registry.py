"""The adaptive classes of each family, made known to the Auto classes of `transformers`."""

from functools import lru_cache
from typing import Any

from transformers import AutoConfig, AutoModel, AutoModelForImageClassification, AutoModelForSequenceClassification
from transformers.conversion_mapping import get_checkpoint_conversion_mapping, register_checkpoint_conversion_mapping

from ponderosa.adapt.model import adaptive_class, adaptive_config

AUTO: tuple[Any, ...] = (AutoModel, AutoModelForSequenceClassification, AutoModelForImageClassification)


@lru_cache(maxsize=64)
def register(model_type: str) -> Any:
    """Let every Auto class that opens models of this type open adaptive ones, too; gives the adaptive config's class."""
    plain: Any = type(AutoConfig.for_model(model_type))
    config = adaptive_config(plain)
    AutoConfig.register(config.model_type, config, exist_ok=True)
    for auto in AUTO:
        if (cls := opens(auto, plain)) is not None:
            auto.register(config, adaptive_class(cls), exist_ok=True)
    renamed = get_checkpoint_conversion_mapping(model_type)  # files keep older names of some weights (ViT)
    if renamed is not None:
        register_checkpoint_conversion_mapping(config.model_type, renamed, overwrite=True)
    return config


def opens(auto: Any, config: Any) -> Any:
    """The class that an Auto class gives for a config, the first where there are several; None if it knows none."""
    found = auto._model_mapping.get(config, None)
    return found[0] if isinstance(found, (list, tuple)) else found
