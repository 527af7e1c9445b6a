"""Images: what stands in front of the first step. A transformer gets patches as tokens, any other step a CNN's features."""

import torch
from torch import Tensor, nn

from ponderosa.sequence import SCALE, Placed, Positions


class PatchEncoder(Placed):
    """Images `[batch, channel, height, width]` as tokens `[batch, token, size]`: a linear layer on each patch, and the signal
    of its place (Dosovitskiy et al., 2021). A class token, if there is one, comes first: `ReadOut(place="query")` reads it.

    Args:
        image: channels, height and width.
        patch: the side of a patch, in pixels.
        size: of a token's state.
        class_token: whether a learned token stands in front of the patches.
        positions: "learned", "sinusoidal" or "none".

    >>> PatchEncoder((3, 32, 32), patch=16, size=8)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 5, 8])
    """

    makes_tokens = True

    def __init__(
        self, image: tuple[int, ...], patch: int, size: int, *, class_token: bool = True, positions: Positions = "learned"
    ):  # fmt: skip
        channels, height, width = _checked(image)
        if patch < 1 or height % patch or width % patch:
            raise ValueError(f"patch={patch}: images of {height}x{width} do not divide evenly into such patches")
        tokens = (height // patch) * (width // patch)
        super().__init__()
        self.image, self.patch = (channels, height, width), patch
        self.place(tokens + class_token, size, positions)
        if self.positions is not None:
            nn.init.normal_(self.positions.weight, std=SCALE)
        self.linear = nn.Linear(channels * patch * patch, size)
        self.class_token = nn.Parameter(torch.randn(size) * SCALE) if class_token else None

    def forward(self, x: Tensor) -> Tensor:
        _check_images(x, self.image)
        rows = x.unflatten(3, (-1, self.patch)).unflatten(2, (-1, self.patch)).permute(0, 2, 4, 1, 3, 5)
        h = self.linear(rows.flatten(3).flatten(1, 2))
        if self.class_token is not None:
            h = torch.cat([self.class_token.expand(len(h), 1, -1), h], 1)
        return self.placed(h)


class ConvEncoder(nn.Sequential):
    """Images `[batch, channel, height, width]` as vectors `[batch, features]`: two convolutions, each of which halves the
    sides, and a linear layer.

    Args:
        image: channels, height and width.
        features: of the vector.
        channels: of the first convolution; the second has twice as many.

    >>> ConvEncoder((1, 28, 28), features=32)(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 32])
    """

    def __init__(self, image: tuple[int, ...], features: int, *, channels: int = 16):
        seen, *sides = _checked(image)
        left = 2 * channels
        for side in sides:
            left *= -(-side // 4)
        super().__init__(
            nn.Conv2d(seen, channels, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv2d(channels, 2 * channels, 5, stride=2, padding=2), nn.ReLU(),
            nn.Flatten(), nn.Linear(left, features), nn.ReLU(),
        )  # fmt: skip
        self.image = tuple(image)

    def forward(self, x: Tensor) -> Tensor:
        _check_images(x, self.image)
        return super().forward(x)


def _checked(image: tuple[int, ...]) -> tuple[int, int, int]:
    if len(image) != 3 or min(image) < 1:
        raise ValueError(f"image={image}: channels, height and width are needed")
    channels, height, width = image
    return channels, height, width


def _check_images(x: Tensor, image: tuple[int, ...]) -> None:
    if x.shape[1:] != image or not x.is_floating_point():
        raise ValueError(f"the input is {x.dtype} {list(x.shape)}: images [batch, {', '.join(map(str, image))}] are needed")
