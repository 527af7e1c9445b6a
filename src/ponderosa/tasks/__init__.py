"""Tasks whose difficulty is known."""

from ponderosa.tasks.base import Batch, Split, Task
from ponderosa.tasks.cpvr import CPVR, PVR
from ponderosa.tasks.cpvr_text import CPVRText
from ponderosa.tasks.images import CIFAR10, MNIST, Digits, FashionMNIST, ImageNet
from ponderosa.tasks.parity import Parity
from ponderosa.tasks.text import TextClassification

__all__ = [
    "CIFAR10", "CPVR", "MNIST", "PVR", "Batch", "CPVRText", "Digits", "FashionMNIST", "ImageNet",
    "Parity", "Split", "Task", "TextClassification",
]  # fmt: skip
