"""The engineer's two commands on a small random encoder: fit depths and fine-tune, then serve and see what was saved."""

import json
from pathlib import Path

import pytest
import yaml

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


@pytest.mark.parametrize("depths", ["mutual-information", "full", "halting-unit", "reconstruction", "constant", "shuffled"])
def test_fine_tune_and_serve(depths: str, made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = made / "run"
    words = f"adapt mr --encoder {made}/encoder --data_dir {made} --depths {depths} --epochs 2 --batch_size 8 --folder {run}"
    main([*words.split(), "--lr", "0.001", "--progress", "false"])
    found = json.loads((run / "result.json").read_text())
    assert found["examples"] == 24
    assert 1 <= found["mean_depth"] <= found["layers"] == 4
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {path.name for path in (run / "model").iterdir()}
    assert "accuracy" in capsys.readouterr().out
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
