"""Tasks whose difficulty is known."""

from ponderosa.tasks.base import Batch, Split, Task
from ponderosa.tasks.cpvr import CPVR, PVR
from ponderosa.tasks.parity import Parity
from ponderosa.tasks.text import TextClassification

__all__ = ["CPVR", "PVR", "Batch", "Parity", "Split", "Task", "TextClassification"]
