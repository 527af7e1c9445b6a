"""Fine-tuning an encoder-decoder on pointer-value retrieval as text, or training a small one from nothing."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import yaml

from ponderosa.measure.written import written
from ponderosa.tasks.cpvr_text import CPVRText
from ponderosa.training.checkpoint import load_checkpoint
from ponderosa.training.experiment import claim
from ponderosa.training.loop import train
from ponderosa.training.run import RunFolder
from ponderosa.training.sequence import SequenceObjective
from ponderosa.training.settings import Settings

VALUES = 10
"""Under "modulus", numbers go up to this many times the length, as in the paper."""


@dataclass
class TextToTextRun:
    """What to fine-tune.

    Args:
        task: plain, or modulus: numbers go up to ten times the length, and point and say by their remainder.
        model: the name or folder of any encoder-decoder of `transformers`; a small T5 from nothing, with a tokenizer made for
            the task, if not given.
        length: of the sequence.
        scratch_pad: whether answers show the way.
        hide_label: whether the decoder is shown another example's label in training, so that it cannot copy the pad's last
            number from there.
        exits: whether every layer of the decoder learns to answer, for adaptive decoding (T5 and its kin).
        train_examples: in the training set.
        width: of the small T5.
        heads: of the small T5.
        encoder_layers: of the small T5.
        decoder_layers: of the small T5.
    """

    task: Literal["plain", "modulus"]
    model: str | None = None
    length: int = 30
    scratch_pad: bool = True
    hide_label: bool = False
    exits: bool = False
    train_examples: int = 100_000
    width: int = 64
    heads: int = 4
    encoder_layers: int = 2
    decoder_layers: int = 3


def fine_tune(run: TextToTextRun, settings: Settings, folder: RunFolder, *, examples: int = 5_000) -> dict[str, Any]:
    """Train, judge what it writes on the test set, and save the model with its tokenizer into the run's folder."""
    if run.hide_label and not run.scratch_pad:
        raise ValueError("hide_label without a scratch-pad: the label is all that is written, so leave out one of the two")
    task = build_task(run)
    task.check_tokenizer()
    torch.manual_seed(settings.seed)
    model = pretrained(run.model) if run.model else small(run, task)
    check_positions(model, task)
    learner = SequenceObjective(model, task, run.exits, run.hide_label)
    claim(folder, plain_text(run, settings))  # only now: a command that was refused leaves no folder behind
    progress = train(learner, settings, folder)
    load_checkpoint(folder.weights, model)
    model.eval().save_pretrained(folder.path / "model")
    task.tokenizer.save_pretrained(folder.path / "model")
    seen = written(learner.write, task, examples=examples)
    found = {
        **asdict(run), "seed": settings.seed, "accuracy": seen.evaluation().accuracy, "examples": examples,
        "by_difficulty": seen.by_difficulty(), "parameters": sum(p.numel() for p in model.parameters()),
        "batches": progress.batch, "batch_size": settings.batch_size, "train_seconds": progress.seconds,
        "threads": torch.get_num_threads(),
        "curve": folder.curve(), "curriculum": folder.curriculum(),
    }  # fmt: skip
    folder.write_result(found)
    return found


def plain_text(run: TextToTextRun, settings: Settings) -> str:
    """The YAML of a run, as `ponderosa finetune --config` reads it."""
    return yaml.safe_dump({**asdict(run), **asdict(settings)})


def read_run(folder: Path | str) -> tuple[Any, CPVRText]:
    """The model and the task of a trained run."""
    place = RunFolder(folder)
    if not (place.path / "model" / "config.json").is_file() or not place.config.is_file():
        raise FileNotFoundError(f"{place.path} is not a fine-tuned run: `ponderosa finetune` makes one")
    said = yaml.safe_load(place.config.read_text())
    run = TextToTextRun(**{name: said[name] for name in TextToTextRun.__dataclass_fields__})
    task = build_task(run, tokenizer=str(place.path / "model"))
    return pretrained(str(place.path / "model")).eval(), task


def build_task(run: TextToTextRun, tokenizer: str | None = None) -> CPVRText:
    values = VALUES * run.length if run.task == "modulus" else None
    return CPVRText(
        run.length, values, run.scratch_pad, train_examples=run.train_examples, tokenizer=tokenizer or run.model
    )  # fmt: skip


def pretrained(name: str) -> Any:
    """An encoder-decoder by name or folder."""
    from transformers import AutoModelForSeq2SeqLM

    return AutoModelForSeq2SeqLM.from_pretrained(name, use_safetensors=True)


def check_positions(model: Any, task: CPVRText) -> None:
    """Refuse texts that are longer than a model has positions for, before any work is done."""
    there, needed = getattr(model.config, "max_position_embeddings", None), max(task.question_tokens, task.longest)
    if there is not None and needed > there:
        raise ValueError(
            f"length={task.length}: questions take up to {task.question_tokens} tokens and answers {task.longest}, but "
            f"{type(model).__name__} has {there} positions: make --length smaller, or choose another --model"
        )


def small(run: TextToTextRun, task: CPVRText) -> Any:
    """A small T5 from nothing. Every distance in the sequence has a bias of its own: that is how it tells positions apart."""
    from transformers import T5Config, T5ForConditionalGeneration

    words = task.tokenizer
    config = T5Config(
        vocab_size=len(words), d_model=run.width, d_kv=run.width // run.heads, d_ff=4 * run.width, num_heads=run.heads,
        num_layers=run.encoder_layers, num_decoder_layers=run.decoder_layers, dropout_rate=0.0,
        relative_attention_num_buckets=4 * (run.length + 1), relative_attention_max_distance=2 * (run.length + 1),
        pad_token_id=words.pad_token_id, eos_token_id=words.eos_token_id,
    )  # fmt: skip
    config.decoder_start_token_id = words.pad_token_id
    return T5ForConditionalGeneration(config)
