"""Images on the command line, on a few small ones: train, evaluate, and what the image results show."""

import json
from pathlib import Path

import pytest
import torch

from ponderosa.cli import bench, evaluate, reproduce, train
from ponderosa.measure.paired import Difference, paired_difference
from ponderosa.reproduce import lac_table_2
from ponderosa.reproduce.lac_cifar import baseline
from ponderosa.reproduce.recipe import expand, read_recipe
from ponderosa.training.jobs import Job
from tests.tasks import images as small

SIZES = [
    "--max_steps", "3", "--batch_size", "8", "--batches", "6", "--log_every", "3", "--evaluate_every", "6",
    "--checkpoint_every", "6", "--evaluate_examples", "4", "--progress", "false",
]  # fmt: skip
VIT = ["--step", "TransformerStep", "--step.size", "8", "--step.heads", "2", "--patch", "14"]
COMMON = """
common: {task: {class_path: ponderosa.tasks.MNIST}, patch: 14, max_steps: 3, batch_size: 8, batches: 4, log_every: 2,
  evaluate_every: 4, checkpoint_every: 4, evaluate_examples: 4,
  step: {class_path: ponderosa.MLPStep, init_args: {hidden_size: 6}}}
examples: 20
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return small.mnist(tmp_path / "data" / "mnist").parent


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are trained here instead of in processes of their own, whose start takes longer than they do."""

    def train_all(jobs: list[Job], **options: object) -> None:
        for job in jobs:
            if not job.done_with():
                job.folder.mkdir(parents=True)
                (job.folder / "wanted.yaml").write_text(job.config)
                words = ["--config", job.folder / "wanted.yaml", "--folder", job.folder, "--examples", job.examples]
                train.main([*map(str, words), "--progress", "false"])

    monkeypatch.setattr(reproduce, "train_all", train_all)


@pytest.mark.parametrize(
    "words",
    [
        ["--step", "MLPStep", "--step.hidden_size", "6", "--halting", "PonderNet"],
        ["--step.hidden_size", "6", "--halting", "ACT"],
        [*VIT, "--halting", "LAC", "--halting.unit", "token"],
        [*VIT, "--step.layers", "3", "--read_out", "mean", "--halting", "ConfidenceExit"],
    ],
)
def test_train_and_evaluate_images(tmp_path: Path, data: Path, words: list[str], capsys) -> None:
    run = tmp_path / "run"
    task = ["mnist", "--data_dir", str(data), "--task.harder", "rotation"]
    train.main([*task, *words, *SIZES, "--folder", str(run)])
    assert "accuracy" in capsys.readouterr().out
    evaluate.main([str(run), "--json", str(tmp_path / "found.json")])
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["examples"] == small.TEST  # of the 10,000 asked for
    assert [row["difficulty"] for row in found["by_difficulty"]] == [0, 15, 30, 45, 60]
    assert found["operations"] > 0


def reproduced(tmp_path: Path, data: Path, name: str, recipe: str) -> dict:
    file = tmp_path / "tiny.yaml"
    file.write_text(recipe)
    where = ["--data_dir", str(data), "--folder", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    reproduce.main([name, "--recipe", str(file), *where])
    found = json.loads((tmp_path / "out" / f"{name}.json").read_text())
    for picture in found["figures"]:
        assert (tmp_path / "out" / picture).read_bytes().startswith(b"\x89PNG")
    return found


@pytest.mark.usefixtures("in_this_process")
def test_pondernet_on_mnist_and_images_made_harder(tmp_path: Path, data: Path) -> None:
    point = "figures: {distribution: {0.3: figure-1}, steps: figures-8-9, lambda_p: figure-12}"
    sweep = "sweeps: {lambda_p: {values: [0.3], fixed: {beta: 0.05}}}"
    found = reproduced(tmp_path, data, "pondernet-mnist", f"extends: pondernet-mnist\n{point}\n{sweep}{COMMON}")
    pictures = ("easiest-and-hardest", "figure-1", "figure-12", "figures-8-9", "images-by-steps")
    assert found["figures"] == [f"pondernet-mnist-{name}.png" for name in pictures]
    assert [row["threshold"] for row in found["data"]["thresholds"]] == [0.25, 0.5, 0.75]
    assert found["rows"][0]["paper_steps"] == "11.45"
    assert "No threshold reaches 0.985" in found["text"]
    halting = "{class_path: ponderosa.PonderNet, init_args: {lambda_p: 0.3, beta: 0.05}}"
    runs = f"runs: {{'lambda_p 0.3, beta 0.05': {{halting: {halting}}}}}"
    found = reproduced(tmp_path, data, "image-difficulty", f"extends: image-difficulty\n{runs}{COMMON}")
    levels = found["data"]["PonderNet"]["noise"]["by_difficulty"]
    assert [row["difficulty"] for row in levels] == [0, 20, 40, 60, 80]
    assert all(1 <= row["steps"] <= 3 for row in levels)
    assert "With rotation steps follow difficulty" in found["text"]


@pytest.mark.usefixtures("in_this_process")
def test_lac_on_images_and_its_share_of_time(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = "step: {class_path: ponderosa.TransformerStep, init_args: {size: 8, heads: 2, layers: %d}}"
    runs = f"""
runs:
  ViT: {{{step % 3}}}
  ViT + LAC per-example: {{{step % 3}, halting: {{class_path: ponderosa.LAC, init_args: {{alpha: 0.8}}}}}}
  "control: ViT of 2 layers": {{{step % 2}, max_steps: 2}}
variants:
  patch 4: {{runs: [ViT], seeds: [0], patch: 4, batches: 2, batch_size: 4}}
  16 wide: {{runs: [ViT], seeds: [0], step: {{size: 16}}}}
seeds: [0, 1]
"""
    found = reproduced(tmp_path, data, "lac-table-2", f"extends: lac-table-2\n{runs}{COMMON}")
    rows = {row["method"]: row for row in found["rows"]}
    assert list(rows) == ["ViT", "ViT + LAC per-example", "control: ViT of 2 layers", "ViT, patch 4", "ViT, 16 wide"]
    assert rows["ViT"]["difference"] is None
    assert rows["ViT"]["paper"] == 0.745
    assert rows["control: ViT of 2 layers"]["saved"] == "33%"
    for name in ("ViT + LAC per-example", "control: ViT of 2 layers"):
        ours, base = (sum(run["accuracy"] for run in found["runs"][key]) / 2 for key in (name, "ViT"))
        assert rows[name]["difference"].startswith(f"{100 * (ours - base):+.2f} [")
    found = reproduced(tmp_path, data, "lac-figure-1", f"extends: lac-figure-1\n{runs}{COMMON}")
    assert [row["method"] for row in found["rows"]] == ["ViT + LAC per-example"]
    monkeypatch.setattr("ponderosa.bench.trained.SECONDS", 0.0)
    monkeypatch.setattr("ponderosa.bench.trained.BATCHES", (1, 4))
    bench.main(["run", "--run", str(tmp_path / "runs" / "ViT-LAC-per-example" / "seed-0"), "--size", "64"])


@pytest.mark.usefixtures("in_this_process")
def test_hyper_vits(tmp_path: Path, data: Path) -> None:
    block = "class_path: ponderosa.TransformerStep, init_args: {size: 8, heads: 2%s}"
    modules = ", modulation: {class_path: ponderosa.HyperModules, init_args: {modules: 4, embedding: 4, out: false}}"
    act = "halting: {class_path: ponderosa.ACT, init_args: {unit: token}}"
    runs = f"""
runs:
  ViT: {{step: {{{block % ", layers: 3"}}}}}
  UViT: {{step: {{{block % ""}}}}}
  U-ViT: {{step: {{{block % ""}}}, {act}}}
  Hyper-UT: {{step: {{{block % modules}}}, {act}}}
"""
    found = reproduced(tmp_path, data, "hyper-ut-figure-6", f"extends: hyper-ut-figure-6\n{runs}{COMMON}")
    assert [row["model"] for row in found["rows"]] == ["ViT", "ViT PS", "U-ViT", "Hyper-UT"]
    assert "Hyper-UT against ViT" in found["text"]
    assert "hyper-ut-figure-6-token-depths.png" in found["figures"]


@pytest.mark.parametrize("name", ["lac-table-2-paper-size", "hyper-ut-figure-6-paper-size"])
def test_the_papers_sizes_can_be_asked_for(tmp_path: Path, name: str) -> None:
    recipe = read_recipe(name)
    assert recipe["folder"] == name
    jobs = expand(recipe, recipe["runs"], tmp_path)
    assert all("size: 768" in group[0].config for key, group in jobs.items() if key != "U-ViT L")


def test_b_16_has_its_parameters() -> None:
    import ponderosa as po

    with torch.device("meta"):
        step = po.TransformerStep(768, 12, layers=12)
    assert sum(parameter.numel() for parameter in step.parameters()) == 85_054_464  # of ViT-B/16's 86 million


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("ViT", "ViT"),
        ("UViT + LAC per-batch", "UViT"),
        ("control: UViT of 5 layers", "UViT"),
        ("ViT, patch 4", "ViT, patch 4"),
        ("ViT + LAC per-example, patch 4", "ViT, patch 4"),
        ("control: UViT of 3 layers, 256 wide", "UViT, 256 wide"),
    ],
)
def test_each_run_is_held_against_its_own_baseline(name: str, base: str) -> None:
    assert baseline({"variants": ["patch 4", "256 wide"]}, name) == base


def test_a_paired_interval_by_hand() -> None:
    ours, theirs = torch.ones(2, 100), torch.ones(2, 100)
    theirs[0, :10] = 0
    found = paired_difference(ours, theirs)
    assert found.mean == pytest.approx(0.05)
    # ten differences of 1/2 and ninety of 0: variance (10 * 0.45^2 + 90 * 0.05^2) / 99
    half = 1.96 * ((10 * 0.45**2 + 90 * 0.05**2) / 99) ** 0.5 / 10
    assert (found.low, found.high) == pytest.approx((0.05 - half, 0.05 + half))
    with pytest.raises(ValueError, match="the same of both"):
        paired_difference(ours, theirs[:1])


@pytest.mark.parametrize(
    ("interval", "seeds", "said"),
    [
        ((0.001, -0.003, 0.005), [0.0, 0.002], "within half a point below"),
        ((0.001, -0.003, 0.005), [-0.006, 0.008], "not surely within half a point"),
        ((-0.008, -0.012, -0.004), [-0.008, -0.008], "not surely within half a point"),
        ((-0.026, -0.030, -0.021), [-0.035, -0.013], "more than half a point below"),
    ],
)
def test_what_is_said_of_a_loss(interval: tuple[float, ...], seeds: list[float], said: str) -> None:
    assert lac_table_2.Compared(Difference(*interval), seeds).near == said
