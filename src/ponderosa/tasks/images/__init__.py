"""Image classification: the data sets by name, as numbered batches of images."""

from ponderosa.tasks.images.task import CIFAR10, MNIST, Digits, FashionMNIST, ImageClassification, ImageNet

__all__ = ["CIFAR10", "MNIST", "Digits", "FashionMNIST", "ImageClassification", "ImageNet"]
