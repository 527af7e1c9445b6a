"""Fine-tuning a pretrained encoder on a text classification task, with any plan of depths."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
import yaml

from ponderosa.adapt import adapt
from ponderosa.depth import Constant, MutualInformation, Reconstruction
from ponderosa.halting.base import Halting
from ponderosa.halting.fixed import Fixed
from ponderosa.halting.planned import PlannedDepth
from ponderosa.halting.unit import HaltingUnit
from ponderosa.measure.cost import cost
from ponderosa.measure.evaluate import evaluate
from ponderosa.tasks.text import TextClassification
from ponderosa.training.checkpoint import load_checkpoint
from ponderosa.training.experiment import claim
from ponderosa.training.loop import fit
from ponderosa.training.run import RunFolder
from ponderosa.training.settings import Settings

Depths = Literal["full", "mutual-information", "reconstruction", "halting-unit", "constant", "shuffled"]


@dataclass
class TextRun:
    """What to fine-tune.

    Args:
        task: one of the 24 data sets, as trec, mr, subj, imdb, ag_news, amazon-books.
        encoder: the folder or name of a pretrained encoder.
        data_dir: the folder of the original files, or one above it; the public hub if not given.
        depths: how deep each word goes: full for all layers, mutual-information, reconstruction, halting-unit (a classifier
            decides); controls: constant (the mean that mutual information gives, for all words), shuffled (its depths, each
            given to another word).
        layers: the encoder cut to its first layers; all if not given.
        frozen_kv: whether halted tokens keep the keys and values of their last layer.
        fold: where there is no official split, which fifth is the test.
        subset: at most this many training examples, and as many for the test; all if not given.
        max_tokens: where longer texts are clipped.
        epochs: passes over the training examples.
    """

    task: str
    encoder: str
    data_dir: str | None = None
    depths: Depths = "mutual-information"
    layers: int | None = None
    frozen_kv: bool = False
    fold: int = 0
    subset: int | None = None
    max_tokens: int = 512
    epochs: float = 3.0


def fine_tune(run: TextRun, settings: Settings, folder: RunFolder) -> dict[str, Any]:
    """Fit the depths, fine-tune, measure on the test set, and save the adaptive model into the run's folder."""
    task = text_task(run)
    folder.path.mkdir(parents=True, exist_ok=True)
    claim(folder, plain_text(run, settings))
    settings = sized(settings, task, run.epochs)
    torch.manual_seed(settings.seed)
    model = pretrained(run, task)
    started = time.perf_counter()
    halting = plan(run, task, model, settings.seed)
    estimation = time.perf_counter() - started
    fast = adapt(model, halting, in_place=True, head="max-mean", frozen_kv=run.frozen_kv)
    progress = fit(fast.net, task, settings, folder)
    load_checkpoint(folder.weights, fast.net)
    fast.eval().save_pretrained(folder.model)
    task.tokenizer.save_pretrained(folder.model)
    seen = evaluate(fast.net, task, examples=task.size("test"), batch_size=64)
    some = task.batch("test", 0, 32)
    spent = cost(fast.net, some.x, mask=some.mask)
    found = {
        **asdict(run), "source": task.source, "train_examples": task.size("train"), "seed": settings.seed,
        "accuracy": seen.accuracy, "mean_depth": seen.mean_steps, "layers": seen.max_steps,
        "examples": len(seen.score), "bound": spent.bound,
        "batches": progress.batch, "train_seconds": progress.seconds, "estimation_seconds": estimation,
    }  # fmt: skip
    folder.write_result(found)
    return found


def text_task(run: TextRun) -> TextClassification:
    """The data set of a run."""
    return TextClassification(
        run.task, run.encoder, run.data_dir, fold=run.fold, subset=run.subset, max_tokens=run.max_tokens
    )  # fmt: skip


DERIVED = ("batches", "log_every", "evaluate_every", "evaluate_examples", "checkpoint_every")
"""Settings that follow from the number of epochs."""


def plain_text(run: TextRun, settings: Settings) -> str:
    """The YAML of a run, as `ponderosa adapt --config` reads it."""
    return yaml.safe_dump({k: v for k, v in {**asdict(run), **asdict(settings)}.items() if k not in DERIVED})


def sized(settings: Settings, task: TextClassification, epochs: float) -> Settings:
    """The settings with as many batches as the epochs need, and the whole validation set looked at after each."""
    per_epoch = max(task.size("train") // settings.batch_size, 1)
    return Settings(**{
        **asdict(settings), "batches": max(round(epochs * per_epoch), 1), "log_every": per_epoch, "evaluate_every": per_epoch,
        "checkpoint_every": per_epoch, "evaluate_examples": task.size("validation"),
    })  # fmt: skip


def pretrained(run: TextRun, task: TextClassification) -> Any:
    """The encoder with room for the task's classes."""
    from transformers import AutoModelForSequenceClassification

    names = dict(enumerate(task.labels))
    options = {} if run.layers is None else {"num_hidden_layers": run.layers}
    return AutoModelForSequenceClassification.from_pretrained(
        run.encoder, id2label=names, label2id={label: i for i, label in names.items()}, use_safetensors=True, **options
    )


def plan(run: TextRun, task: TextClassification, model: Any, seed: int) -> Halting:
    """The mechanism that the run asks for."""
    layers = model.config.num_hidden_layers
    if run.depths == "full":
        return Fixed()
    if run.depths == "halting-unit":
        return HaltingUnit(layers)
    if run.depths == "reconstruction":
        return PlannedDepth(Reconstruction.fit(task.texts("train"), tokenizer=task.tokenizer, encoder=model, seed=seed))
    words = MutualInformation.fit(task.texts("train"), task.targets("train"), task.tokenizer, layers=layers)
    return PlannedDepth(PLANS[run.depths](words, task, seed))


def _constant(words: MutualInformation, task: TextClassification, seed: int) -> Constant:
    depths = [d for text in task.encode(task.texts("train")) for d in words.depths(torch.tensor([text]))[0].tolist()]
    return Constant(round(sum(depths) / len(depths)), layers=words.layers, vocabulary=words.vocabulary)


def _shuffled(words: MutualInformation, task: TextClassification, seed: int) -> MutualInformation:
    order = torch.randperm(len(words.table), generator=torch.Generator().manual_seed(seed)).tolist()
    depths = list(words.table.values())
    table = {word: depths[i] for word, i in zip(words.table, order, strict=True)}
    return MutualInformation(table, words.information, layers=words.layers, vocabulary=words.vocabulary)


PLANS: dict[str, Callable[[MutualInformation, TextClassification, int], Any]] = {
    "mutual-information": lambda words, task, seed: words, "constant": _constant, "shuffled": _shuffled,
}  # fmt: skip
