"""Small files in the formats of the image sets."""

import gzip
import struct
from pathlib import Path

import numpy as np

TRAIN, TEST = 40, 20


def idx(values: np.ndarray) -> bytes:
    head = bytes((0, 0, 8, values.ndim)) + struct.pack(f">{values.ndim}I", *values.shape)
    return head + values.astype(np.uint8).tobytes()


def mnist(folder: Path, packed: bool = True) -> Path:
    """Stripes whose place tells the digit: easy to learn."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    for prefix, count in (("train", TRAIN), ("t10k", TEST)):
        labels = np.arange(count) % 10
        images = random.integers(0, 60, (count, 28, 28))
        images[np.arange(count), labels * 2 + 3] = 255
        for kind, values in (("images-idx3", images), ("labels-idx1", labels)):
            data = idx(values)
            name = f"{prefix}-{kind}-ubyte"
            (folder / (name + ".gz" * packed)).write_bytes(gzip.compress(data) if packed else data)
    return folder


def cifar(folder: Path, images: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    for number, name in enumerate([*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]):
        rows = random.integers(0, 256, (images, 3073), dtype=np.uint8)
        rows[:, 0] = (np.arange(images) + number) % 10
        (folder / f"{name}.bin").write_bytes(rows.tobytes())
    return folder
