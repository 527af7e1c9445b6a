"""What is repeated: the contract and one file per step."""

from ponderosa.steps.base import CellStep, Step, as_step
from ponderosa.steps.gru import GRUStep
from ponderosa.steps.mlp import MLPStep
from ponderosa.steps.stack import Stack
from ponderosa.steps.transformer import TokenStep, TransformerStep

__all__ = ["CellStep", "GRUStep", "MLPStep", "Stack", "Step", "TokenStep", "TransformerStep", "as_step"]
