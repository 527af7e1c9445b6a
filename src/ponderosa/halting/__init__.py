"""When to stop: the contract and one file per mechanism."""

from ponderosa.halting.act import ACT
from ponderosa.halting.base import Halting, Units
from ponderosa.halting.compose import AnyOf, Bounded
from ponderosa.halting.exits import ConfidenceExit, EntropyExit, PatienceExit
from ponderosa.halting.fixed import Fixed
from ponderosa.halting.lac import LAC
from ponderosa.halting.planned import PlannedDepth
from ponderosa.halting.pondernet import PonderNet
from ponderosa.halting.random_depth import RandomDepth
from ponderosa.halting.sentence import SentenceExit
from ponderosa.halting.unit import HaltingUnit

__all__ = [
    "ACT", "LAC", "AnyOf", "Bounded", "ConfidenceExit", "EntropyExit", "Fixed", "Halting",
    "HaltingUnit", "PatienceExit", "PlannedDepth", "PonderNet", "RandomDepth", "SentenceExit", "Units",
]  # fmt: skip
