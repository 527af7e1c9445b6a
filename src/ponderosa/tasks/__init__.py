"""Tasks whose difficulty is known."""

from ponderosa.tasks.base import Batch, Split, Task
from ponderosa.tasks.parity import Parity

__all__ = ["Batch", "Parity", "Split", "Task"]
