"""`ponderosa adapt`: fit depths on a text classification task, and fine-tune a pretrained encoder with them."""

from dataclasses import fields

from jsonargparse import ArgumentParser

from ponderosa.cli.options import command_line, save_json
from ponderosa.measure.environment import environment
from ponderosa.training.experiment import Help
from ponderosa.training.run import RunFolder
from ponderosa.training.settings import Settings
from ponderosa.training.text import DERIVED, TextRun, fine_tune

ABOUT = """Make a pretrained encoder adaptive for a text classification task.

  ponderosa adapt trec --encoder ENCODER --data_dir DATA --folder runs/trec

Estimates how deep each word has to go, fine-tunes the encoder with these depths, measures it on the test set and saves the
model (FOLDER/model: config, safetensors, tokenizer, depths). `ponderosa classify FOLDER/model` serves it.
The number of batches follows from --epochs. The same command goes on with a run that was interrupted.
"""


def main(argv: list[str]) -> None:
    parser = ArgumentParser(prog="ponderosa adapt", description=ABOUT, formatter_class=Help, exit_on_error=False)
    parser.add_argument("--config", action="config", help="a YAML file with any of these options, such as a run's config.yaml")
    parser.add_class_arguments(TextRun)
    parser.add_class_arguments(Settings, skip={*DERIVED})
    parser.set_defaults(batch_size=32, lr=5e-5, clip=5.0)
    parser.add_argument("--folder", type=str | None, default=None, help="the run's folder, by default runs/TASK-DEPTHS")
    parser.add_argument("--json", type=str | None, default=None, help="write the result to this file, too")
    argv = ["--task", *argv] if argv and not argv[0].startswith("-") else argv
    options = parser.parse_args(argv)
    run = TextRun(**{f.name: options[f.name] for f in fields(TextRun)})
    settings = Settings(**{f.name: options[f.name] for f in fields(Settings) if f.name not in DERIVED})
    folder = RunFolder(options.folder or f"runs/{run.task}-{run.depths}")
    found = fine_tune(run, settings, folder) | {"command": command_line("adapt", argv), "environment": environment()}
    folder.write_result(found)
    save_json(options.json, found)
    size = f"{found['train_examples']:,} training and {found['examples']:,} test examples of {found['source']}"
    print(
        f"accuracy {found['accuracy']:.4f} at a mean depth of {found['mean_depth']:.2f} of {found['layers']} layers ({size}); "
        f"{found['batches']:,} batches in {found['train_seconds']:.0f} s; {folder.path}/model"
    )
