"""Tasks whose difficulty is known."""

from ponderosa.tasks.base import Batch, Split, Task
from ponderosa.tasks.cpvr import CPVR, PVR
from ponderosa.tasks.cpvr_text import CPVRText
from ponderosa.tasks.parity import Parity
from ponderosa.tasks.text import TextClassification

__all__ = ["CPVR", "PVR", "Batch", "CPVRText", "Parity", "Split", "Task", "TextClassification"]
