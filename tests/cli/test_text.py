"""The engineer's two commands on a small random encoder: fit depths and fine-tune, then serve and see what was saved."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
import yaml
from safetensors.torch import load_file

import ponderosa as po
from ponderosa.cli import main
from ponderosa.reproduce.recipe import read_recipe
from tests.adapt.models import model, wordpiece

WORDS = ["good", "bad", "film", "a", "play", "##ing", "##ers", "."]
LINES = {"neg": "a bad film .\nbad playing\nplayers bad .\n", "pos": "a good film .\ngood playing\nplayers good .\n"}


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """An encoder's folder and a small data set."""
    model("bert-encoder").float().save_pretrained(tmp_path / "encoder")
    wordpiece(WORDS).save_pretrained(tmp_path / "encoder")
    (tmp_path / "mr").mkdir()
    for label, text in LINES.items():
        (tmp_path / "mr" / f"rt-polarity.{label}").write_text(text * 20)
    return tmp_path


DEPTHS = ["mutual-information", "full", "halting-unit", "reconstruction", "composed", "constant", "shuffled"]


@pytest.mark.parametrize("depths", DEPTHS)
def test_fine_tune_and_serve(depths: str, made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = made / "run"
    words = f"adapt mr --encoder {made}/encoder --data_dir {made} --depths {depths} --epochs 2 --batch_size 8 --folder {run}"
    main([*words.split(), "--lr", "0.001", "--progress", "false"])
    found = json.loads((run / "result.json").read_text())
    assert found["examples"] == 24
    assert 1 <= found["mean_depth"] <= found["layers"] == 4
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {path.name for path in (run / "model").iterdir()}
    assert "accuracy" in capsys.readouterr().out
    assert (found["thresholds"] is not None) == (depths == "composed")
    (made / "texts.txt").write_text("a good film .\nbad players\n\ngood\n")
    serve = f"classify {run}/model --texts {made}/texts.txt --batch_size 2 --html {made}/depths.html --json {made}/served.json"
    main(serve.split())
    out = capsys.readouterr().out
    assert "times sooner" in out
    served = json.loads((made / "served.json").read_text())
    assert served["examples"] == len(served["answers"]) == 3
    assert served["by_layer"] == sorted(served["by_layer"], reverse=True)
    assert served["mean_depth"] == pytest.approx(sum(served["by_layer"]))
    assert served["bound"] >= 1
    assert "good<sub>" in (made / "depths.html").read_text()
    if depths == "full":
        assert served["operations"] == served["full_operations"]


def test_compared_with_full_depth_and_a_control(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = (
        f"adapt mr --encoder {made}/encoder --data_dir {made} --compare true --batch_size 8 --epochs 1 --json {made}/all.json"
    )
    words += " --least 2 --bins 4"
    main([*words.split(), "--folder", str(made / "run"), "--progress", "false"])
    found = json.loads((made / "all.json").read_text())["rows"]
    assert [row["name"] for row in found] == ["full", "mutual-information", "cut"]
    assert found[1]["start"] == found[2]["start"] == f"{made}/run/full/model"
    assert found[2]["layers"] == max(round(found[1]["mean_depth"]), 1)
    assert found[0]["bound"] == found[0]["speedup"] == 1 < found[1]["bound"]
    assert "<sub>" in (made / "run" / "depths.html").read_text()
    assert "depths.html" in capsys.readouterr().out


def test_going_on_from_another_task_s_model_is_refused(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = f"--encoder {made}/encoder --data_dir {made} --epochs 0.1 --batch_size 8 --progress false"
    main([*f"adapt mr {common} --depths full --folder {made}/run".split()])
    (made / "trec").mkdir()
    for name in ("train_5500.label", "TREC_10.label"):
        (made / "trec" / name).write_text("NUM:count How many ?\nHUM:ind Who ?\nLOC:city Where ?\n" * 5)
    with pytest.raises(SystemExit):
        main([*f"adapt trec {common} --start {made}/run/model --folder {made}/other".split()])
    assert "was trained for ['neg', 'pos'], but trec has" in capsys.readouterr().err


def test_what_is_missing_is_said(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["classify", str(made / "nowhere")])
    assert "is not a model's folder" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["adapt", "sst", "--encoder", str(made / "encoder"), "--data_dir", str(made)])
    assert "there is no data set 'sst'" in capsys.readouterr().err


def test_a_table_of_the_paper(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two methods of table 3 at a size of our own, from training to the page."""
    recipe = read_recipe("faster-dat-table-3")
    names = ("full depth", "MI estimation")
    small = {**recipe, "tasks": {"mr": {}}, "runs": {name: recipe["runs"][name] for name in names}}
    small["common"] |= {"epochs": 1, "batch_size": 8}
    (made / "small.yaml").write_text(yaml.safe_dump(small, sort_keys=False))
    words = f"reproduce faster-dat-table-3 --recipe {made}/small.yaml --encoder {made}/encoder --data_dir {made} --seeds 1"
    main([*words.split(), "--folder", str(made / "table"), "--progress", "false"])
    found = json.loads((made / "table" / "faster-dat-table-3.json").read_text())
    assert [row["method"] for row in found["rows"]] == list(names)
    assert found["rows"][0]["gain"] == "+0.00"
    assert found["rows"][1]["paper"] == 84.2
    assert "seeds 1" in found["text"]
    assert "paper (BERT-base)" in (made / "table" / "faster-dat-table-3.md").read_text()


def test_figures_of_the_paper(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those that need no training, or that measure what is trained: on the small encoder, one method."""
    common = {"encoder": f"{made}/encoder", "data_dir": str(made), "epochs": 0.1, "batch_size": 8}
    runs = {"full depth": {"depths": "full"}, "lambda 0.1": {"depths": "reconstruction", "penalty": 0.1}}
    recipe = {
        "seeds": [0], "common": common, "tasks": {"mr": {}}, "layers": 4, "words": 9, "texts": 5, "runs": runs,
        "goes_on": True, "measured": ["lambda 0.1"],
        "reconstruction": {"batches": 1}, "paper": {"lambda 0.1": {"accuracy": 96.55, "speed": 48, "depth": 4.5}},
    }  # fmt: skip
    (made / "small.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))

    quick = patch.multiple("ponderosa.bench.text", TEXTS=2, SECONDS=0, ROUNDS=1)

    def made_by(name: str) -> dict[str, Any]:
        main(f"reproduce {name} --recipe {made}/small.yaml --folder {made}/figures --progress false".split())
        assert "figures" in capsys.readouterr().out
        return json.loads((made / "figures" / f"{name}.json").read_text())

    with quick:
        (row,) = made_by("faster-dat-table-4")["rows"]
        assert row["penalty"] == 0.1 and row["speed"] > 0 and 1 <= float(row["depth"]) <= 4
        found = made_by("faster-dat-figure-4")["data"]["speeds"]
        assert [each["batch"] for each in found] == [1, 4, 8, 15, 32]
        assert all(each["bound"] >= 1 and each["share"] > 0 for each in found)
    rows = made_by("faster-dat-figure-1")["rows"]
    assert [each["estimator"] for each in rows] == ["MI", "reconstruction"]
    made_by("faster-dat-figure-5")
    assert "<sub>" in (made / "figures" / "faster-dat-figure-5-words.html").read_text()
    recipe |= {"layers": [2], "runs": {"full depth": {"depths": "full"}}}
    (made / "small.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))
    with quick:
        rows = made_by("faster-dat-figure-3")["rows"]
    assert [each["layers"] for each in rows] == [2]


def test_taught_by_the_model_that_it_goes_on_from(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A composed model of fewer layers learns from its teacher's answers, also on texts whose labels it is not told."""
    common = f"--encoder {made}/encoder --data_dir {made} --subset 40 --epochs 1 --batch_size 8 --progress false"
    main([*f"adapt mr {common} --depths full --folder {made}/full".split()])
    words = f"adapt mr {common} --depths composed --layers 2 --bins 4 --start {made}/full/model --taught 30"
    main([*words.split(), "--folder", str(made / "run")])
    found = json.loads((made / "run" / "result.json").read_text())
    assert (found["train_examples"], found["layers"]) == (36 + 27, 2)
    assert max(po.adapt.load(made / "run" / "model").net.halting.tokens.plan.table.values()) == 4
    answers = {path: path.stat().st_mtime_ns for path in (made / "full").glob("answers-*.safetensors")}
    assert len(answers) == 2  # to the training texts and to further ones
    shallow = "--depths mutual-information --least 3 --taught 30"
    main([*f"adapt mr {common} {shallow} --start {made}/full/model --folder {made}/least".split()])
    assert min(po.adapt.load(made / "least" / "model").net.halting.plan.table.values()) == 3
    assert {path: path.stat().st_mtime_ns for path in (made / "full").glob("answers-*.safetensors")} == answers
    with pytest.raises(SystemExit):
        main([*f"adapt mr {common} --least 5 --folder {made}/other".split()])
    assert "least=5: the encoder has 4 layers" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*f"adapt mr {common} --depths full --least 3 --folder {made}/other".split()])
    assert "with depths that words have" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*f"adapt mr {common} --taught 3 --folder {made}/other".split()])
    assert "with --start the model that is to teach" in capsys.readouterr().err


@pytest.mark.parametrize("asked", [False, True])
def test_words_embeddings_are_trained_only_if_asked_for(asked: bool, made: Path) -> None:
    words = f"adapt mr --encoder {made}/encoder --data_dir {made} --epochs 1 --batch_size 8 --train_embeddings {asked}"
    main([*words.split(), "--folder", str(made / "run"), "--lr", "0.01", "--progress", "false"])
    before, after = (
        load_file(made / folder / "model.safetensors") for folder in ("encoder", "run/model")
    )  # fmt: skip
    name = "embeddings.word_embeddings.weight"
    assert torch.equal(after[f"bert.{name}"], before[name]) != asked


@pytest.mark.parametrize(("depths", "knob"), [("mutual-information", "shift"), ("full", "max_steps")])
def test_calibrated_models_carry_their_setting(depths: str, knob: str, made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The run's own commands use it, and so does whoever loads the model alone; calibrating again starts from all layers."""
    run = made / "run"
    words = f"adapt mr --encoder {made}/encoder --data_dir {made} --depths {depths} --epochs 1 --batch_size 8 --folder {run}"
    main([*words.split(), "--progress", "false"])
    for _ in range(2):
        main(f"calibrate {run} --drop 60 --delta 0.4 --progress false".split())
        found = json.loads((run / "calibration.json").read_text())
        assert (found["knob"], found["full_steps"]) == (knob, 4)
    net = po.adapt.load(run / "model").net
    assert getattr(net if knob == "max_steps" else net.halting, knob) == found["value"]
    main(f"evaluate {run} --examples 10".split())
    assert "calibrated" in capsys.readouterr().out
    main(f"report {run} --settings 3 --progress false --out {made}/report.html".split())
    text = (made / "report.html").read_text()
    assert "calibrated to at most 60 points below full depth" in text
    assert "players" in text or "play" in text
