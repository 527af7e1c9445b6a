"""Depth known in advance: how many layers each word needs, before the first one runs."""

from ponderosa.depth.base import DepthEstimator, WordTable
from ponderosa.depth.constant import Constant
from ponderosa.depth.mutual_information import MutualInformation

__all__ = ["Constant", "DepthEstimator", "MutualInformation", "WordTable"]
