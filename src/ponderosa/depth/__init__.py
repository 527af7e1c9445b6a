"""Depth known in advance: how many layers each word needs, before the first one runs."""

from ponderosa.depth.base import DepthEstimator, WordTable
from ponderosa.depth.constant import Constant
from ponderosa.depth.mutual_information import MutualInformation
from ponderosa.depth.oracle import Oracle
from ponderosa.depth.reconstruction import Reconstruction
from ponderosa.depth.shuffled import Shuffled

__all__ = ["Constant", "DepthEstimator", "MutualInformation", "Oracle", "Reconstruction", "Shuffled", "WordTable"]
