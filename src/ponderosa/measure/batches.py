"""Batches to measure on: numbered ones of a task, or those of any data loader."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ponderosa.adapt.inputs import model_inputs, real_tokens
from ponderosa.halting.exits import log_probabilities
from ponderosa.tasks.base import Batch, Split, Task
from ponderosa.tree import Tree, tree_map

Data = Iterable[Any]
"""A data loader: its batches are pairs (x, y), a model of transformers' dicts with `labels`, or ponderosa's own `Batch`."""


def read(data: Data, net: nn.Module) -> Iterator[Batch]:
    """The batches of a data loader, on the device and in the precision of a network; examples are numbered as they come."""
    seen = 0
    for given in data:
        batch = to_like(_batch(given, seen), first_parameter(net))
        seen += len(batch)
        yield batch
    if not seen:
        raise ValueError("the data has no batches: a loader that can be gone through more than once is needed")


def _batch(given: Any, first: int) -> Batch:
    if isinstance(given, Batch):
        return given
    mask = None
    if isinstance(given, Mapping) and "labels" in given:
        inputs = {name: value for name, value in given.items() if name not in ("labels", "attention_mask")}
        x, y, mask = model_inputs(inputs), given["labels"], real_tokens(given.get("attention_mask"))
    elif isinstance(given, (tuple, list)) and len(given) == 2:
        x, y = given
    else:
        raise TypeError(f"a batch is {type(given).__name__}: a pair (x, y), a dict with labels, or a ponderosa Batch is needed")
    return Batch(x, y, torch.arange(first, first + len(y)), torch.zeros(len(y), dtype=torch.long), mask)


def right(output: Tensor, target: Tensor) -> Tensor:
    """1 for each example `[batch]` whose likeliest class is the target's, else 0; the mean over tokens, where each has a class.

    >>> right(torch.tensor([[2.0, 1.0], [0.0, 3.0]]), torch.tensor([0, 0]))
    tensor([1., 0.])
    """
    classes = log_probabilities(output)
    label = classes.argmax(-1)
    if target.numel() != label.numel():
        raise ValueError(
            f"the targets are {list(target.shape)}, the answers {list(output.shape)}: a class's number for each answer is "
            f"needed, {list(label.shape)} (of one-hot targets, y.argmax(-1))"
        )
    if target.numel() and (target.max() >= classes.shape[-1] or (target != target.round()).any()):
        raise ValueError(f"targets up to {target.max():g}: the number of one of the {classes.shape[-1]} classes is needed")
    same = (label == target.reshape(label.shape)).to(output.dtype)
    return same if same.ndim == 1 else same.flatten(1).mean(1)


def scored(score: Callable[[Tensor, Tensor], Tensor], output: Tensor, target: Tensor) -> Tensor:
    """What a score, perhaps a user's, says of each example `[batch]`."""
    found = score(output, target)
    if not isinstance(found, Tensor) or found.shape != output.shape[:1]:
        given = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise ValueError(f"the score gave {given} for {len(output)} answers: one number for each is needed, [{len(output)}]")
    return found.float().cpu()


def batches(task: Task, split: Split, examples: int, batch_size: int, seed: int = 0) -> Iterator[Batch]:
    """Batches of `batch_size` that make up `examples`, or all that there are; the last may be smaller."""
    examples = min(examples, task.size(split) or examples)
    for index in range(-(-examples // batch_size)):
        batch = task.batch(split, index, batch_size, seed)
        yield select(batch, slice(0, min(batch_size, examples - index * batch_size)))


def share(batch: Batch, rank: int, ranks: int) -> Batch:
    """This device's part of a batch."""
    return batch if ranks == 1 else select(batch, slice(rank, None, ranks))


def first_parameter(net: nn.Module) -> Tensor:
    """Says on which device and in which precision a network is; one without parameters is on the CPU."""
    return next(net.parameters(), torch.empty(0))


def select(batch: Batch, rows: slice) -> Batch:
    """Some examples of a batch."""
    return map_batch(lambda t: t[rows], batch)


def to_like(batch: Batch, like: Tensor) -> Batch:
    """The batch on the device, and its inputs in the precision, of a network's parameters."""
    batch = map_batch(lambda t: t.to(like.device), batch)
    batch.x = tree_map(lambda t: t.to(like.dtype) if t.is_floating_point() else t, batch.x)
    return batch


def map_batch(fn: Any, batch: Batch) -> Batch:
    """The batch with a function applied to each of its tensors."""
    parts: Iterable[Tree] = (batch.x, batch.y, batch.key, batch.difficulty, batch.mask)
    return Batch(*(tree_map(fn, part) for part in parts))
