"""`ponderosa adapt`: fit depths on a text classification task, and fine-tune a pretrained encoder with them."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser

from ponderosa.cli.classify import classify, open_model, write_page
from ponderosa.cli.options import command_line, save_json
from ponderosa.measure.environment import environment
from ponderosa.measure.saving import Saving
from ponderosa.measure.table import table
from ponderosa.tasks.text import TextClassification
from ponderosa.training.experiment import Help
from ponderosa.training.run import RunFolder
from ponderosa.training.settings import Settings
from ponderosa.training.text import DERIVED, TextRun, fine_tune, text_task

ABOUT = """Make a pretrained encoder adaptive for a text classification task.

  ponderosa adapt trec --encoder ENCODER --data_dir DATA --folder runs/trec
  ponderosa adapt movie-reviews --encoder minilm --subset 2000 --compare true

Estimates how deep each word has to go, fine-tunes the encoder with these depths, measures it on the test set and saves the
model (FOLDER/model: config, safetensors, tokenizer, depths). `ponderosa classify FOLDER/model` serves it.
With --compare the encoder is fine-tuned at full depth first, the adaptive model goes on from there, and so does a control that
is cut to as many layers as the adaptive one takes on average; a table shows all three, and a page colours words by depth.
The number of batches follows from --epochs. The same command goes on with a run that was interrupted.
"""
COLUMNS = {
    "name": "", "accuracy": "accuracy", "mean_depth": "mean depth", "layers": "layers", "speedup": "times sooner",
    "bound": "possible",
}  # fmt: skip
SERVED = 128
"""Test texts that are answered to measure the time, in batches of 32."""


def main(argv: list[str]) -> None:
    parser = ArgumentParser(prog="ponderosa adapt", description=ABOUT, formatter_class=Help, exit_on_error=False)
    parser.add_argument("--config", action="config", help="a YAML file with any of these options, such as a run's config.yaml")
    parser.add_class_arguments(TextRun)
    parser.add_class_arguments(Settings, skip={*DERIVED})
    parser.set_defaults(batch_size=32, lr=5e-5, clip=5.0)
    parser.add_argument("--folder", type=str | None, default=None, help="the run's folder, by default runs/TASK-DEPTHS")
    parser.add_argument("--compare", type=bool, default=False, help="whether to show full depth and a control beside it")
    parser.add_argument("--json", type=str | None, default=None, help="write the result to this file, too")
    argv = ["--task", *argv] if argv and not argv[0].startswith("-") else argv
    options = parser.parse_args(argv)
    run = TextRun(**{f.name: options[f.name] for f in fields(TextRun)})
    settings = Settings(**{f.name: options[f.name] for f in fields(Settings) if f.name not in DERIVED})
    folder = RunFolder(options.folder or f"runs/{run.task}-{run.depths}")
    about = {"command": command_line("adapt", argv), "environment": environment()}
    found = (compare if options.compare else adapt)(run, settings, folder, about)
    save_json(options.json, found)


def adapt(run: TextRun, settings: Settings, folder: RunFolder, about: dict[str, Any]) -> dict[str, Any]:
    """One model, and a line about it."""
    found = fine_tune(run, settings, folder) | about
    folder.write_result(found)
    size = f"{found['train_examples']:,} training and {found['examples']:,} test examples of {found['source']}"
    print(
        f"accuracy {found['accuracy']:.4f} at a mean depth of {found['mean_depth']:.2f} of {found['layers']} layers ({size}); "
        f"{found['batches']:,} batches in {found['train_seconds']:.0f} s; {folder.path}/model"
    )
    return found


def compare(run: TextRun, settings: Settings, folder: RunFolder, about: dict[str, Any]) -> dict[str, Any]:
    """Full depth, the adaptive model, and a control of as many layers; a table of them, and a page of coloured texts."""

    if run.depths == "full":
        raise ValueError("--compare shows depths beside full depth: choose --depths mutual-information, or another")

    def trained(name: str, options: dict[str, Any]) -> dict[str, Any]:
        return {"name": name, **adapt(replace(run, **options), settings, RunFolder(folder.path / name), about)}

    all_layers: dict[str, Any] = {"depths": "full", "bins": None, "least": None}
    whole = trained("full", all_layers)
    start = {"start": str(folder.path / "full" / "model")} if run.start is None else {}
    ours = trained(run.depths, start)
    control = trained("cut", {**start, **all_layers, "layers": max(round(ours["mean_depth"]), 1)})
    task = text_task(run)
    rows = [{**row, **served(folder.path / row["name"] / "model", task)} for row in (whole, ours, control)]
    for row in rows:
        row |= {
            "speedup": rows[0]["microseconds"] / row["microseconds"], "bound": rows[0]["operations"] / row["operations"]
        }  # fmt: skip
    print(f"\n{table(rows, COLUMNS)}")
    if rows[2]["accuracy"] >= rows[1]["accuracy"]:
        print("The control, the encoder cut to its first layers, is as accurate or better.")
    page = folder.path / "depths.html"
    fast, tokenizer = open_model(folder.path / run.depths / "model")
    write_page(
        page, list(classify(fast, tokenizer, task.texts("test")[:8], Saving(fast.net), 8, run.max_tokens)), ours["layers"]
    )
    print(f"\nWords coloured by depth: {page.resolve()}")
    return {"rows": rows, **about}


def served(model: Path, task: TextClassification) -> dict[str, Any]:
    """The time and the operations that a text of the test takes."""
    fast, tokenizer = open_model(model)
    saving = Saving(fast.net)
    list(classify(fast, tokenizer, task.texts("test")[:SERVED], saving, 32, task.max_tokens))
    return {key: saving.summary()[key] for key in ("microseconds", "operations")}
