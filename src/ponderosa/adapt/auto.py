"""Importing this module lets the Auto classes and pipelines of `transformers` open the folders of adaptive models."""

from ponderosa.adapt.families import FAMILIES
from ponderosa.adapt.registry import register

for name in FAMILIES:
    register(name)
