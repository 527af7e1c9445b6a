"""Modulation: what makes the one block of a universal transformer another at each step. One file per kind."""

from ponderosa.steps.modules.base import Modulation
from ponderosa.steps.modules.film import FiLM
from ponderosa.steps.modules.hyper import HyperModules
from ponderosa.steps.modules.latents import Latents

__all__ = ["FiLM", "HyperModules", "Latents", "Modulation"]
