"""What early exits of single tokens save in a decoder, and at what risk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ponderosa.adapt.writer import AdaptiveWriter, Draft
from ponderosa.measure.batches import batches
from ponderosa.measure.cost import alternating
from ponderosa.measure.guarantee import safe
from ponderosa.measure.operations import count
from ponderosa.measure.written import greedy
from ponderosa.tasks.base import Split
from ponderosa.tasks.cpvr_text import CPVRText

THRESHOLDS = (0.9999, 0.9995, 0.999, 0.995, 0.99, 0.98, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4)
"""Tried from the most careful on."""
FRESH = 1
"""The seed of calibration: other examples of the validation's kind than those that chose the weights."""
BATCH = 500


def calibrate(
    model: Any, task: CPVRText, *, risk: float, delta: float, examples: int, progress: bool = False
) -> dict[str, Any]:  # fmt: skip
    """The lowest threshold that is shown to spoil at most a share `risk` of the answers (right at full depth, wrong with
    exits), with probability 1 - `delta`, on examples of the validation's kind. Full depth where too little is known."""
    from tqdm import tqdm

    if not (0 < risk < 1 and 0 < delta < 1):
        raise ValueError(f"risk={risk}, delta={delta}: both lie between 0 and 1")
    right = _scores(model, task, 1.0, examples)
    tried: list[dict[str, Any]] = []

    def lost() -> Iterator[int]:
        for threshold in tqdm(THRESHOLDS, desc="calibrating", unit="threshold", disable=not progress):
            spoilt = int((right > _scores(model, task, threshold, examples)).sum())
            tried.append({"threshold": threshold, "spoilt": spoilt})
            yield spoilt

    kept = safe(lost(), examples, risk, delta)
    return {
        "threshold": THRESHOLDS[kept - 1] if kept else 1.0,
        "risk": risk,
        "delta": delta,
        "examples": examples,
        "tried": tried,
    }


def _scores(model: Any, task: CPVRText, threshold: float, examples: int) -> Tensor:
    writer = AdaptiveWriter(model, threshold, longest=task.longest)
    shown = batches(task, "validation", examples, BATCH, FRESH)
    return torch.cat([task.score(writer.write(batch.x, batch.mask).ids, batch.y) for batch in shown])


def compare(model: Any, task: CPVRText, threshold: float, *, examples: int, split: Split = "test") -> list[dict[str, Any]]:
    """By hops: accuracy and depth at full depth and with exits, the share of texts that are the same, and of answers that
    exits spoil."""
    full, fast = (AdaptiveWriter(model, t, longest=task.longest) for t in (1.0, threshold))
    parts = []
    for batch in batches(task, split, examples, BATCH):
        one, two = (writer.write(batch.x, batch.mask) for writer in (full, fast))
        right, still = task.score(one.ids, batch.y), task.score(two.ids, batch.y)
        same = torch.tensor([a == b for a, b in zip(task.written(one.ids), task.written(two.ids), strict=True)])
        parts.append(torch.stack([batch.difficulty, right, still, same, right > still, *_depth_and_tokens(two)], 1))
    seen = torch.cat(parts)
    return [_row(seen[seen[:, 0] == hops], int(hops)) for hops in seen[:, 0].unique()]


def _depth_and_tokens(draft: Draft) -> tuple[Tensor, Tensor]:
    """Layers taken by all tokens of each example, and the tokens `[batch]`."""
    return draft.depths.sum(1), (draft.depths > 0).sum(1)


def _row(seen: Tensor, hops: int) -> dict[str, Any]:
    _, right, still, same, spoilt, depth, tokens = seen.sum(0).tolist()
    each = len(seen)
    return {
        "difficulty": hops, "examples": each, "full": right / each, "exits": still / each, "same": same / each,
        "spoilt": spoilt / each, "depth": depth / tokens,
    }  # fmt: skip


def saving(
    model: Any, task: CPVRText, threshold: float, sizes: Sequence[int], *, split: Split = "test", repeats: int = 10
) -> list[dict[str, Any]]:
    """For each batch size, operations (in the decoder, and in all) and milliseconds per example at full depth and with exits,
    and the time of `transformers`' own generation."""
    full, fast = (AdaptiveWriter(model, t, longest=task.longest) for t in (1.0, threshold))
    rows = []
    for size in sizes:
        batch = task.batch(split, 0, size)
        given = batch.x, batch.mask
        runs = partial(full.write, *given), partial(fast.write, *given), partial(greedy, model, *given, task.longest)
        encoder = count(partial(model.encoder, input_ids=batch.x)) / size
        done, exits = (count(run) / size for run in runs[:2])
        full_ms, ms, theirs = (seconds / size * 1e3 for seconds in alternating(runs, repeats))
        rows.append({
            "batch": size, "full_operations": done, "operations": exits, "full_decoder_operations": done - encoder,
            "decoder_operations": exits - encoder, "bound": done / exits, "full_ms": full_ms, "ms": ms,
            "speedup": full_ms / ms, "transformers_ms": theirs,
        })  # fmt: skip
    return rows
