"""What is repeated: the contract and one file per step."""

from ponderosa.steps.base import CellStep, Step, as_step
from ponderosa.steps.gru import GRUStep
from ponderosa.steps.mlp import MLPStep
from ponderosa.steps.modules import FiLM, HyperModules, Latents, Modulation
from ponderosa.steps.stack import Stack
from ponderosa.steps.transformer import TokenStep, TransformerStep

__all__ = [
    "CellStep", "FiLM", "GRUStep", "HyperModules", "Latents", "MLPStep", "Modulation", "Stack", "Step", "TokenStep",
    "TransformerStep", "as_step",
]  # fmt: skip
