"""`ponderosa finetune`: an encoder-decoder on pointer-value retrieval as text, with or without a scratch-pad."""

from dataclasses import fields

from jsonargparse import ArgumentParser

from ponderosa.cli.options import at_least_one, command_line, save_json
from ponderosa.measure.environment import environment
from ponderosa.measure.table import table
from ponderosa.training.experiment import Help
from ponderosa.training.run import RunFolder
from ponderosa.training.settings import Settings
from ponderosa.training.text_to_text import TextToTextRun, fine_tune

ABOUT = """Fine-tune an encoder-decoder on conditional pointer-value retrieval as text.

  ponderosa finetune plain --length 16 --hide_label true     a small T5 from nothing, with a scratch-pad
  ponderosa finetune plain --scratch_pad false               the label alone
  ponderosa finetune modulus --model google-t5/t5-small      any encoder-decoder of transformers, by name or folder

The question is a sequence of numbers, as "3 3 9 6 8 9 8 3 12 7 11 2". Start at the first; while a number points to a later
position, go there; the label is the number at which that ends. The answer is "2", or with a scratch-pad "2 # 3 9 12 2": the
label first, then the numbers on the way. Training has 1 to 4 hops, the test 1 to 9. Answers are taken to the letter: any
other text is malformed, and counts as wrong.

The folder (--folder, by default runs/TASK-with-pad or -without) holds config.yaml, metrics.csv, checkpoints, result.json and
model/. The same command goes on with a run that was interrupted. `ponderosa decode FOLDER` lets easy tokens leave early.
"""


def main(argv: list[str]) -> None:
    parser = ArgumentParser(prog="ponderosa finetune", description=ABOUT, formatter_class=Help, exit_on_error=False)
    parser.add_argument("--config", action="config", help="a YAML file with any of these options, such as a run's config.yaml")
    parser.add_class_arguments(TextToTextRun)
    parser.add_class_arguments(Settings)
    parser.set_defaults(batch_size=64, batches=4000, lr=2e-3, schedule="cosine", warmup=200, evaluate_examples=1000)
    parser.add_argument("--folder", type=str | None, default=None, help="the run's folder")
    parser.add_argument("--examples", type=int, default=5_000, help="test examples")
    parser.add_argument("--json", type=str | None, default=None, help="write the result to this file, too")
    argv = ["--task", *argv] if argv and not argv[0].startswith("-") else argv
    options = parser.parse_args(argv)
    counts = ("examples", "train_examples", "width", "heads", "encoder_layers", "decoder_layers")
    at_least_one(**{name: options[name] for name in counts})
    run = TextToTextRun(**{f.name: options[f.name] for f in fields(TextToTextRun)})
    settings = Settings(**{f.name: options[f.name] for f in fields(Settings)})
    folder = RunFolder(options.folder or f"runs/{run.task}-{'with-pad' if run.scratch_pad else 'without'}")
    found = fine_tune(run, settings, folder, examples=options.examples)
    found |= {"command": command_line("finetune", argv), "environment": environment("transformers")}
    folder.write_result(found)
    save_json(options.json, found)
    rows = [row | row["kinds"] for row in found["by_difficulty"]]
    columns = {"difficulty": "hops", "label": "label right", "last": "last number right", "tokens": "tokens"}
    print(table(rows, columns | {kind: kind for kind in found["by_difficulty"][0]["kinds"]}))
    print(
        f"\naccuracy {found['accuracy']:.4f} on {found['examples']:,} test examples; {found['batches']:,} batches in "
        f"{found['train_seconds']:.0f} s; {folder.path}/model"
    )
