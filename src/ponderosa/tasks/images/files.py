"""Readers of the image sets' original files: each is read whole, or named in an error."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from ponderosa.tasks.files import one, read_bytes


class Images(Protocol):
    """Images by their numbers: a tensor of bytes `[image, channel, height, width]` is such, and so is a folder of files."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Tensor) -> Tensor: ...


class Part(NamedTuple):
    """Some images, and the number of each one's class."""

    images: Images
    labels: Tensor


def idx(path: Path, axes: int) -> Tensor:
    """The bytes of an IDX file (MNIST): two zeros, the kind of number, the number of axes, their lengths, the data."""
    data = read_bytes(path)
    head = 4 + 4 * axes
    if data[:4] != bytes((0, 0, 8, axes)) or len(data) < head:
        raise ValueError(f"{path} is no IDX file of bytes with {axes} axes: it begins with {data[:4].hex(' ') or 'nothing'}")
    shape = [int.from_bytes(data[at : at + 4], "big") for at in range(4, head, 4)]
    _check_length(path, len(data) - head, int(np.prod(shape)))
    return _bytes(data, head).view(shape)


def mnist(folder: Path) -> tuple[Part, Part]:
    """The four files of MNIST and of those made like it, packed or not."""
    train, test = (_digits(folder, prefix) for prefix in ("train", "t10k"))
    return train, test


def _digits(folder: Path, prefix: str) -> Part:
    # some mirrors write a point where the original has a dash
    where, labels_in = (
        one(folder, f"{prefix}-{kind}?idx{axes}-ubyte", f"{prefix}-{kind}?idx{axes}-ubyte.gz")
        for kind, axes in (("images", 3), ("labels", 1))
    )
    images, labels = idx(where, 3)[:, None], idx(labels_in, 1)
    if len(images) != len(labels):
        raise ValueError(f"{where} has {len(images):,} images, {labels_in} {len(labels):,} labels: they do not belong together")
    _check_labels(labels_in, labels, classes=10)
    return Part(images, labels.long())


CIFAR_IMAGE = 3 * 32 * 32
CIFAR_IMAGES = 10_000
"""In each of its files."""
CIFAR_ARCHIVE = "cifar-10-binary.tar.gz"


def cifar10(folder: Path, images: int = CIFAR_IMAGES) -> tuple[Part, Part]:
    """The six files of CIFAR-10's binary version, unpacked or in their archive, with so many images each."""
    train = [_cifar(folder, f"data_batch_{number}.bin", images) for number in range(1, 6)]
    return _part(torch.cat(train)), _part(_cifar(folder, "test_batch.bin", images))


def _cifar(folder: Path, name: str, images: int) -> Tensor:
    """The bytes of a file `[images, 1 + CIFAR_IMAGE]`: a label and an image in each row."""
    path, data = _member(folder, name)
    _check_length(path, len(data), images * (1 + CIFAR_IMAGE))
    rows = _bytes(data).view(images, 1 + CIFAR_IMAGE)
    _check_labels(path, rows[:, 0], classes=10)
    return rows


def _part(rows: Tensor) -> Part:
    return Part(rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0].long())


def _member(folder: Path, name: str) -> tuple[Path, bytes]:
    """A file of CIFAR-10: in the folder, in the one that its archive unpacks to, or in the archive."""
    for home in (folder, folder / "cifar-10-batches-bin"):
        if (home / name).is_file():
            return home / name, (home / name).read_bytes()
    if (folder / "data_batch_1").exists() or (folder / "cifar-10-batches-py").exists():
        raise ValueError(f"{folder} has CIFAR-10's Python version, whose files can run code: get the binary version instead")
    archive = one(folder, CIFAR_ARCHIVE)
    try:
        with tarfile.open(archive) as tar:
            content = tar.extractfile(f"cifar-10-batches-bin/{name}")
            assert content is not None
            return archive / name, content.read()
    except (tarfile.TarError, EOFError, KeyError, zlib.error) as error:
        raise ValueError(f"{archive} is damaged or cut short ({error}): get it again") from error


def _check_labels(path: Path, labels: Tensor, classes: int) -> None:
    if len(labels) and int(labels.max()) >= classes:
        raise ValueError(f"{path} has the label {int(labels.max())}, but there are {classes} classes: the file is damaged")


def _check_length(path: Path, length: int, expected: int) -> None:
    if length != expected:
        raise ValueError(
            f"{path} has {length:,} bytes of data where {expected:,} belong: it is cut short or damaged, get it again"
        )


def _bytes(data: bytes, start: int = 0) -> Tensor:
    return torch.from_numpy(np.frombuffer(data, np.uint8, offset=start).copy())


SUFFIXES = (".jpeg", ".jpg", ".png", ".bmp", ".webp")


class Pictures:
    """Image files, or anything else that `load` opens as Pillow images, read when they are asked for: the shorter side is
    scaled to `size`, and the square in the middle cut out."""

    def __init__(self, sources: Sequence[Any], size: int):
        self.sources, self.size = sources, size

    def __len__(self) -> int:
        return len(self.sources)

    def __getitem__(self, rows: Tensor) -> Tensor:
        with ThreadPoolExecutor() as pool:  # decoding does not hold the interpreter's lock
            return torch.stack(list(pool.map(self._read, rows.tolist())))

    def _read(self, row: int) -> Tensor:
        image = self.load(row)
        scale = self.size / min(image.size)
        width, height = (max(self.size, round(side * scale)) for side in image.size)
        left, top = (width - self.size) // 2, (height - self.size) // 2
        square = image.convert("RGB").resize((width, height)).crop((left, top, left + self.size, top + self.size))
        return torch.from_numpy(np.asarray(square).copy()).permute(2, 0, 1)

    def load(self, row: int) -> Any:
        """The Pillow image of that number."""
        from PIL import Image, UnidentifiedImageError

        source = self.sources[row]
        if not isinstance(source, Path):
            return source["image"]
        try:
            image = Image.open(source)
            image.load()
        except (UnidentifiedImageError, OSError) as error:
            raise ValueError(f"{source} is damaged or no image ({error}): get it again, or remove it") from error
        return image


def folders(root: Path, size: int) -> tuple[Part, Part]:
    """A folder with `train` and `val` in it, and a folder for each class in these."""
    classes = sorted(path.name for path in (root / "train").glob("*") if path.is_dir())
    if len(classes) < 2:
        raise FileNotFoundError(
            f"{root / 'train'} has no folders of images, one for each class: --data_dir must name the one above"
        )
    train, test = (_folder(root / name, classes, size) for name in ("train", "val"))
    return train, test


def _folder(folder: Path, classes: Sequence[str], size: int) -> Part:
    found = [
        (path, label) for label, name in enumerate(classes)
        for path in sorted((folder / name).glob("*")) if path.suffix.lower() in SUFFIXES
    ]  # fmt: skip
    if not found:
        raise FileNotFoundError(f"{folder} has no images in folders named as the classes, {', '.join(classes[:3])}, ...")
    return Part(Pictures([path for path, _ in found], size), torch.tensor([label for _, label in found]))
