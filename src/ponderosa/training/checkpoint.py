"""A checkpoint: one safetensors file with the weights, the optimiser and the progress. Never a pickle."""

import contextlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

FORMAT = "ponderosa checkpoint 1"


@dataclass
class Progress:
    """How far a run has come. Batches and random numbers follow from the batch's number, so this is all."""

    batch: int = 0
    seconds: float = 0.0
    best: float = -1.0
    since_best: int = 0
    finished: bool = False


def save_checkpoint(path: Path, model: nn.Module, optimizer: Any, progress: Progress) -> None:
    """Write the file beside its place, then move it there: a crash or a full disk leaves the old one whole."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    state = optimizer.state_dict()
    scalars: dict[str, dict[str, Any]] = {}
    for index, entries in state["state"].items():
        for name, value in entries.items():
            if isinstance(value, Tensor):
                tensors[f"optimizer.{index}.{name}"] = value
            else:
                scalars.setdefault(str(index), {})[name] = value
    metadata = {
        "format": FORMAT,
        "progress": json.dumps(asdict(progress)),
        "optimizer": json.dumps({"groups": state["param_groups"], "scalars": scalars}),
    }
    contiguous = {name: tensor.detach().contiguous().clone() for name, tensor in tensors.items()}
    try:
        with replacing(path) as temporary:
            save_file(contiguous, temporary, metadata)
    except (SafetensorError, OSError) as error:
        raise OSError(
            f"could not write {path} ({error}). The checkpoint before it is whole: make room, and the same command goes on "
            "from there"
        ) from error


def load_checkpoint(path: Path, model: nn.Module, optimizer: Any = None) -> Progress:
    """Put a checkpoint's weights into `model`, and its state into `optimizer` if one is given."""
    metadata, tensors = _read(path)
    weights = {name.removeprefix("model."): t for name, t in tensors.items() if name.startswith("model.")}
    _load_weights(path, model, weights)
    if optimizer is not None:
        saved = json.loads(metadata["optimizer"])
        state: dict[int, dict[str, Any]] = {int(i): dict(values) for i, values in saved["scalars"].items()}
        for name, tensor in tensors.items():
            if name.startswith("optimizer."):
                _, index, entry = name.split(".", 2)
                state.setdefault(int(index), {})[entry] = tensor
        optimizer.load_state_dict({"state": state, "param_groups": saved["groups"]})
    return Progress(**json.loads(metadata["progress"]))


def _read(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    if not path.is_file():
        raise FileNotFoundError(f"there is no checkpoint at {path}: has the run been trained?")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} is damaged or not a checkpoint ({error}): restore it, or train the run again") from error
    if metadata.get("format") != FORMAT:
        raise ValueError(f"{path} is a safetensors file, but not a checkpoint of Ponderosa: it lacks the mark {FORMAT!r}")
    return metadata, tensors


def _load_weights(path: Path, model: nn.Module, weights: dict[str, Tensor]) -> None:
    expected = model.state_dict()
    wrong = [n for n in {*expected, *weights} if n not in weights or n not in expected or expected[n].shape != weights[n].shape]
    if wrong:
        name = min(wrong)
        raise ValueError(
            f"{path} belongs to another network: {len(wrong)} of its tensors do not fit, {name} for one (here "
            f"{_shape(expected, name)}, there {_shape(weights, name)}). Use the run's own config.yaml"
        )
    model.load_state_dict(weights)


def _shape(tensors: dict[str, Tensor], name: str) -> str:
    return str(list(tensors[name].shape)) if name in tensors else "absent"


@contextlib.contextmanager
def replacing(path: Path) -> Any:
    """A temporary path that becomes `path` when the block ends well, and vanishes when it does not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.part")  # always the same name: what a killed run leaves is written over
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
