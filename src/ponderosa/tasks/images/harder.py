"""Images made harder to recognise, by known degrees: what a network's steps are held against."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from ponderosa.keys import mix, uniform

Harder = Literal["none", "rotation", "noise"]
LEVELS: dict[Harder, tuple[int, ...]] = {"none": (0,), "rotation": (0, 15, 30, 45, 60), "noise": (0, 20, 40, 60, 80)}
"""Degrees to the left or right; the standard deviation of what is added to each pixel, in percent of white."""


def levels(harder: Harder, rows: Tensor) -> Tensor:
    """How much harder each image is made, by its number: all levels equally often."""
    of = torch.tensor(LEVELS[harder])
    return of[rows % len(of)]


def made_harder(x: Tensor, harder: Harder, rows: Tensor) -> Tensor:
    """Images `[batch, channel, height, width]` from 0 to 1, each made harder to its level; it depends on its number alone."""
    if harder == "none" or not len(x):
        return x
    level = levels(harder, rows).to(x.dtype)
    return rotated(x, level * _signs(rows)) if harder == "rotation" else noisy(x, level / 100, rows)


def _signs(rows: Tensor) -> Tensor:
    return torch.where(uniform(0, rows) < 0.5, -1.0, 1.0)


def rotated(x: Tensor, degrees: Tensor) -> Tensor:
    """Each image turned about its middle by its `degrees` `[batch]`; what turns in from outside is black."""
    angle = degrees.deg2rad().to(x.dtype)
    row, column = (angle.cos(), -angle.sin()), (angle.sin(), angle.cos())
    turn = torch.stack([torch.stack([*pair, torch.zeros_like(angle)], -1) for pair in (row, column)], 1)
    return F.grid_sample(x, F.affine_grid(turn, list(x.shape), align_corners=False), align_corners=False)


def noisy(x: Tensor, deviation: Tensor, rows: Tensor) -> Tensor:
    """Each image with normal noise of its `deviation` `[batch]`, drawn from its number; not cut off at black and white."""
    draws = uniform(1, mix(rows)[:, None] + torch.arange(x[0].numel())).clamp(1e-12, 1 - 1e-12)
    return x + deviation[:, None, None, None] * torch.special.ndtri(draws).to(x.dtype).view_as(x)
