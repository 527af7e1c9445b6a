"""Hyper-UT at the paper's own size: every model is built, counted, and takes one training step."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ponderosa.reproduce import hyper_ut
from ponderosa.reproduce.recipe import Outcome
from ponderosa.training.experiment import build, experiment_parser
from ponderosa.training.jobs import Job
from ponderosa.training.objective import Objective

COLUMNS = {
    "model": "model", "parameters": "parameters", "per_step": "parameters of a step", "shape": "hidden, MLP, layers, heads",
    "paper": "paper: hidden, MLP, layers, heads", "modules": "paper: modules", "loss": "loss of the step",
    "steps": "mean steps",
}  # fmt: skip


def jobs(recipe: Mapping[str, Any], root: Path) -> dict[str, list[Job]]:
    """Nothing is trained; options that no model knows are an error before any is built."""
    hyper_ut.jobs(recipe, root)
    return {}


def outcome(recipe: Mapping[str, Any], groups: Mapping[str, list[Job]]) -> Outcome:
    (options,) = recipe["tasks"].values()
    rows = []
    for model, chosen in recipe["runs"].items():
        paper = recipe["paper"].get(model)
        taken = one_step({**recipe["common"], **options, **chosen}, recipe["one_step"])
        rows.append(
            {"model": model, **taken, "paper": shape(paper) if paper else None, "modules": (paper or {}).get("modules")}
        )
    wrong = [row["model"] for row in rows if row["paper"] and row["paper"] != row["shape"]]
    same = "All shapes are the paper's." if not wrong else f"Not the paper's shapes: {', '.join(wrong)}."
    text = (
        f"{same} Each model took one training step of Adam on {recipe['one_step']} examples. The paper names T32 ACT and "
        "T32 PS without listing their shapes: they are T32's here."
    )
    return Outcome(rows, COLUMNS, text, {})


def shape(sizes: Mapping[str, Any]) -> str:
    return ", ".join(str(sizes[key]) for key in ("hidden", "mlp", "layers", "heads"))


def one_step(options: Mapping[str, Any], examples: int) -> dict[str, Any]:
    """Build a model and train it on one batch: what it is, and that its weights move."""
    parser = experiment_parser()
    experiment = build(parser.parse_object(dict(options)), parser)
    net, settings = experiment.net, experiment.settings
    optimizer = torch.optim.AdamW(net.parameters(), lr=settings.lr, weight_decay=settings.weight_decay)
    batch = experiment.task.batch("train", 0, examples)
    loss, (_, _, steps, *_) = Objective(net.train(), experiment.task)(batch)
    loss.backward()
    optimizer.step()
    if not all(bool(p.isfinite().all()) for p in net.parameters()):
        raise FloatingPointError("the training step left weights that are not finite")
    sizes = {
        "hidden": net.step.size,
        "mlp": mlp_size(options),
        "layers": net.max_steps,
        "heads": options["step"]["init_args"]["heads"],
    }
    return {
        "parameters": count(net), "per_step": count(net.step) // (1 if net.step.tied else net.max_steps),
        "shape": shape(sizes), "loss": round(loss.item(), 3), "steps": round(steps.item(), 1),
    }  # fmt: skip


def mlp_size(options: Mapping[str, Any]) -> int:
    arguments = options["step"]["init_args"]
    return arguments.get("mlp_size") or 4 * arguments["size"]


def count(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())
