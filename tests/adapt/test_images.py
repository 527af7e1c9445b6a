"""A vision transformer of `transformers` made adaptive, trained on a task's images like any other network."""

from pathlib import Path

import pytest
import torch
import transformers

import ponderosa as po
from ponderosa.measure.evaluate import evaluate
from ponderosa.tasks import MNIST
from tests.tasks import images as small


@pytest.mark.parametrize(
    "halting", [lambda: po.LAC(alpha=0.8), lambda: po.ConfidenceExit(threshold=0.6), lambda: po.LAC(unit="token")]
)
@pytest.mark.parametrize("name", ["ViT", "DeiT"])
def test_it_learns_to_classify_images(tmp_path: Path, name: str, halting) -> None:
    task = MNIST(str(small.mnist(tmp_path)))
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(
        hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=32, image_size=28, patch_size=14,
        num_channels=1, num_labels=task.output_size,
    )  # fmt: skip
    fast = po.adapt(getattr(transformers, f"{name}ForImageClassification")(config), halting())
    optimizer = torch.optim.Adam(fast.parameters(), lr=0.01)
    for index in range(60):
        batch = task.batch("train", index, 36)
        loss = fast(pixel_values=batch.x, labels=batch.y).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert len(evaluate(fast.net, task).score) == small.TEST
    assert evaluate(fast.net, task, split="train", examples=36).accuracy > 0.7  # a guess is right once in ten times
