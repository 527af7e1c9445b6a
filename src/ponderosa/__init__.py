"""Ponderosa: adaptive depth for PyTorch networks.

They stop early where they can, think longer where they must, and are really faster for it.
"""

from ponderosa import functional
from ponderosa.halting import (
    ACT,
    LAC,
    AnyOf,
    Bounded,
    ConfidenceExit,
    EntropyExit,
    Fixed,
    Halting,
    PatienceExit,
    PlannedDepth,
    PonderNet,
    Units,
)
from ponderosa.ponder import Ponder
from ponderosa.solution import Solution
from ponderosa.steps import CellStep, GRUStep, MLPStep, Stack, Step

__version__ = "0.1.0"

__all__ = [
    "ACT", "LAC", "AnyOf", "Bounded", "CellStep", "ConfidenceExit", "EntropyExit", "Fixed", "GRUStep", "Halting",
    "MLPStep", "PatienceExit", "PlannedDepth", "Ponder", "PonderNet", "Solution", "Stack", "Step", "Units",
    "functional",
]  # fmt: skip
