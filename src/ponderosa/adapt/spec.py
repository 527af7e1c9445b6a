"""A halting as plain values for a config file, and back: names and numbers, never code."""

import inspect
import sys
from typing import Any

from torch import nn

from ponderosa import halting as mechanisms
from ponderosa.depth.base import DepthEstimator
from ponderosa.halting.base import Halting

DEPTHS = "depths.json"
"""The file beside a model's weights that holds its depth estimator."""


def describe(halting: Halting) -> dict[str, Any]:
    """The class and the arguments of a halting.

    >>> import ponderosa as po
    >>> describe(po.Bounded(po.ConfidenceExit(threshold=0.8), max_steps=4))["halting"]
    {'class': 'ConfidenceExit', 'threshold': 0.8, 'unit': 'example'}
    """
    cls = type(halting)
    name = cls.__name__ if getattr(mechanisms, cls.__name__, None) is cls else f"{cls.__module__}.{cls.__qualname__}"
    given = {key: getattr(halting, key) for key in inspect.signature(cls).parameters if hasattr(halting, key)}
    return {"class": name, **{key: _plain(name, key, value) for key, value in given.items()}}


def _plain(name: str, key: str, value: Any) -> Any:
    if isinstance(value, Halting):
        return describe(value)
    if isinstance(value, (nn.ModuleList, list, tuple)):
        return [_plain(name, key, item) for item in value]
    if isinstance(value, DepthEstimator):
        return {"file": DEPTHS}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ValueError(
        f"{name}({key}={value!r}) cannot be saved: only numbers, words, mechanisms and depth estimators can. "
        "Give depths with each call instead (depth=...), or a po.MutualInformation"
    )


def build(spec: dict[str, Any], estimator: DepthEstimator | None = None) -> Halting:
    """The halting of a description; `estimator` takes the place of the file that one may name."""
    options = {key: _value(value, estimator) for key, value in spec.items() if key != "class"}
    return _find(spec["class"])(**options)


def _value(value: Any, estimator: DepthEstimator | None) -> Any:
    if isinstance(value, list):
        return [_value(item, estimator) for item in value]
    if not isinstance(value, dict):
        return value
    return build(value, estimator) if "class" in value else estimator


def _find(name: str) -> type[Halting]:
    """A class of ours, or of a module that the user has imported: a config file never makes us import anything."""
    module, _, own = name.rpartition(".")
    found = getattr(mechanisms, name, None) if not module else getattr(sys.modules.get(module), own, None)
    if not (inspect.isclass(found) and issubclass(found, Halting)):
        raise ValueError(f"there is no halting mechanism {name!r}: import the module that defines it first")
    return found
