"""Fine-tuning, decoding and the figures of the paper on the smallest T5 there is, from the command line."""

import json
from pathlib import Path

import pytest
import yaml
from safetensors.torch import load_file

from ponderosa.cli import main
from ponderosa.reproduce.recipe import read_recipe

SMALL = {
    "length": 6, "width": 8, "heads": 2, "encoder_layers": 1, "decoder_layers": 2, "train_examples": 256, "batches": 20,
    "batch_size": 8, "log_every": 10, "evaluate_every": 10, "checkpoint_every": 10, "evaluate_examples": 20, "progress": False,
}  # fmt: skip


@pytest.fixture(autouse=True)
def short_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few numbers hold four hops at most."""
    from ponderosa.tasks import cpvr_text

    class Short(cpvr_text.CPVR):
        def __init__(self, length: int, values: int | None, train_hops: int, test_hops: int, train_examples: int | None):
            super().__init__(length, values, 2, 4, train_examples)

    monkeypatch.setattr(cpvr_text, "CPVR", Short)


def words(**options: object) -> list[str]:
    return [word for name, value in {**SMALL, **options}.items() for word in (f"--{name}", str(value).lower())]


def test_a_small_t5_then_the_same_by_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, again = tmp_path / "run", tmp_path / "again"
    main(["finetune", "modulus", *words(folder=run, examples=16, exits=True)])
    assert "label right, pad inexact" in capsys.readouterr().out
    found = json.loads((run / "result.json").read_text())
    assert [row["difficulty"] for row in found["by_difficulty"]] == [1, 2, 3, 4]
    assert all(sum(row["kinds"].values()) == pytest.approx(1) for row in found["by_difficulty"])
    main(["finetune", "modulus", *words(folder=again, examples=16, model=run / "model", scratch_pad=False)])
    assert json.loads((again / "result.json").read_text())["parameters"] == found["parameters"]

    main(
        [
            "decode",
            str(run),
            "--calibration",
            "8",
            "--examples",
            "8",
            "--batch_sizes",
            "[2]",
            "--json",
            str(tmp_path / "d.json"),
        ]
    )
    assert "not enough to let any token leave early" in capsys.readouterr().out
    decoded = json.loads((tmp_path / "d.json").read_text())
    assert decoded["threshold"] == 1.0
    assert all(row["same"] == 1 for row in decoded["by_difficulty"])
    assert decoded["cost"][0]["operations"] == decoded["cost"][0]["full_operations"]
    main(["decode", str(run), "--threshold", "0.01", "--examples", "8", "--batch_sizes", "[2]"])
    assert "1.000" in capsys.readouterr().out  # every token leaves after the first layer


def test_texts_are_not_for_networks_that_classify(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "cpvrtext", "--task.length", "12"])
    assert "`ponderosa finetune` trains encoder-decoders" in capsys.readouterr().err


def test_a_run_that_was_interrupted_ends_as_if_it_was_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ponderosa.training import loop

    whole, cut = tmp_path / "whole", tmp_path / "cut"
    main(["finetune", "plain", *words(folder=whole, examples=8)])
    usual = loop.Trainer.train_batch

    def stopped(self: loop.Trainer, index: int) -> object:
        if index == 15:
            raise KeyboardInterrupt
        return usual(self, index)

    with monkeypatch.context() as patched, pytest.raises(SystemExit):
        patched.setattr(loop.Trainer, "train_batch", stopped)
        main(["finetune", "plain", *words(folder=cut, examples=8)])
    main(["finetune", "plain", *words(folder=cut, examples=8)])
    one, other = (load_file(run / "checkpoint" / "last.safetensors") for run in (whole, cut))
    assert all(one[name].equal(other[name]) for name in one)
    assert one.keys() == other.keys()


def test_any_family_by_its_folder(tmp_path: Path) -> None:
    main(["finetune", "plain", *words(folder=tmp_path / "run", examples=8, model=bart(tmp_path, 6), batches=10)])
    assert json.loads((tmp_path / "run" / "result.json").read_text())["batches"] == 10


def bart(folder: Path, largest: int) -> Path:
    """A small BART of 63 positions, with a tokenizer of the task's own."""
    from transformers import BartConfig, BartForConditionalGeneration

    from ponderosa.tasks.cpvr_text import word_tokenizer

    tokenizer = word_tokenizer(["#", *map(str, range(largest + 1))])
    config = BartConfig(
        d_model=8, encoder_layers=1, decoder_layers=2, encoder_attention_heads=1, decoder_attention_heads=1, encoder_ffn_dim=8,
        decoder_ffn_dim=8, vocab_size=len(tokenizer), max_position_embeddings=63, pad_token_id=0, bos_token_id=0,
        eos_token_id=1, decoder_start_token_id=1, forced_eos_token_id=1,
    )  # fmt: skip
    BartForConditionalGeneration(config).save_pretrained(folder / "bart")
    tokenizer.save_pretrained(folder / "bart")
    return folder / "bart"


def test_figures_5_and_8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both from one training, at a size of our own."""
    recipe = read_recipe("hyper-ut-figure-5") | {"tasks": {"plain": {}}, "beside": None}
    recipe["common"] = {k: v for k, v in SMALL.items() if k != "progress"}
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))
    for run, options in recipe["runs"].items():
        for seed in (0, 1):
            folder = tmp_path / "figure" / f"plain-{run.replace(' ', '-')}" / f"seed-{seed}"
            main(["finetune", "plain", *words(folder=folder, examples=16, seed=seed, **options)])
    made = ["--recipe", str(tmp_path / "small.yaml"), "--folder", str(tmp_path / "figure"), "--train", "false", "--seeds", "2"]
    for figure in ("5", "8"):
        main(["reproduce", f"hyper-ut-figure-{figure}", *made, "--examples", "16"])
        found = json.loads((tmp_path / "figure" / f"hyper-ut-figure-{figure}.json").read_text())
        assert found["figures"] == [f"hyper-ut-figure-{figure}-plain.png"]
        assert "from nothing on the task alone" in found["text"]
    rows = json.loads((tmp_path / "figure" / "hyper-ut-figure-5.json").read_text())["rows"]
    assert [row["model"] for row in rows][-1] == "guessing"
    assert "±" in rows[0]["1"]


def test_a_refused_command_leaves_its_folder_free(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main(f"finetune plain --length -3 --folder {tmp_path}/run".split())
    assert not (tmp_path / "run" / "config.yaml").exists()


def test_a_label_alone_cannot_be_hidden(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["finetune", "plain", *words(folder=tmp_path / "run", hide_label=True, scratch_pad=False)])
    assert "hide_label without a scratch-pad" in capsys.readouterr().err
    assert not (tmp_path / "run" / "config.yaml").exists()


def test_lengths_that_do_not_fit_are_refused_in_words_of_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for length, said in ((3, "length=3: 1 to 2 hops fit in"), (63, "questions take up to 64 tokens")):
        with pytest.raises(SystemExit):
            main(["finetune", "plain", "--model", str(bart(tmp_path, 63)), "--length", str(length)])
        error = capsys.readouterr().err
        assert said in error
        assert "_hops" not in error
