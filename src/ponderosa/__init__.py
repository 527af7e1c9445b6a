"""Ponderosa: adaptive depth for PyTorch networks.

They stop early where they can, think longer where they must, and are really faster for it.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ponderosa import functional
    from ponderosa.adapt import MaxMeanClassifier, adapt
    from ponderosa.depth import Constant, DepthEstimator, MutualInformation, Oracle, Reconstruction
    from ponderosa.halting import (
        ACT,
        LAC,
        AnyOf,
        Bounded,
        ConfidenceExit,
        EntropyExit,
        Fixed,
        Halting,
        HaltingUnit,
        PatienceExit,
        PlannedDepth,
        PonderNet,
        RandomDepth,
        SentenceExit,
        Units,
    )
    from ponderosa.ponder import Ponder
    from ponderosa.sequence import ReadOut, SequenceEncoder
    from ponderosa.solution import Solution
    from ponderosa.steps import (
        CellStep,
        FiLM,
        GRUStep,
        HyperModules,
        Latents,
        MLPStep,
        Modulation,
        Stack,
        Step,
        TokenStep,
        TransformerStep,
    )
    from ponderosa.stream import Answer, Request, Stream
    from ponderosa.vision import ConvEncoder, PatchEncoder

__version__ = "0.1.0"

__all__ = [
    "ACT", "LAC", "Answer", "AnyOf", "Bounded", "CellStep", "ConfidenceExit", "Constant", "ConvEncoder", "DepthEstimator",
    "EntropyExit", "FiLM", "Fixed", "GRUStep", "Halting", "HaltingUnit", "HyperModules", "Latents", "MLPStep",
    "MaxMeanClassifier", "Modulation", "MutualInformation", "Oracle", "PatchEncoder", "PatienceExit", "PlannedDepth", "Ponder",
    "PonderNet", "RandomDepth", "ReadOut", "Reconstruction", "Request", "SentenceExit", "SequenceEncoder", "Solution", "Stack",
    "Step", "Stream", "TokenStep", "TransformerStep", "Units", "adapt", "functional",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """A public name is imported at its first use: `ponderosa --help` must not wait for torch."""
    if name not in __all__:
        raise AttributeError(f"module 'ponderosa' has no attribute {name!r}")
    if name in ("adapt", "functional"):
        return importlib.import_module(f"ponderosa.{name}")
    for home in ("halting", "steps", "ponder", "sequence", "vision", "solution", "stream", "depth", "adapt"):
        module = importlib.import_module(f"ponderosa.{home}")
        if hasattr(module, name):
            globals()[name] = getattr(module, name)
            return globals()[name]
    raise AttributeError(name)


def __dir__() -> list[str]:
    return __all__
