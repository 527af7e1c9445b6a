"""Random draws that belong to a unit: made from a seed and the unit's own key, never from the batch."""

import torch
from torch import Tensor

from ponderosa.tree import Tree, leaves

_GOLDEN = -7046029254386353131  # 2^64 / golden ratio, as a signed number
_MIX = (-4658895280553007687, -7723592293110705685)  # the multipliers of splitmix64


def mix(key: Tensor) -> Tensor:
    """Scramble 64-bit integers (splitmix64's finaliser), so that near keys give unrelated numbers."""
    key = key + _GOLDEN
    for shift, factor in zip((30, 27), _MIX, strict=True):
        key = (key ^ _shift(key, shift)) * factor
    return key ^ _shift(key, 31)


def _shift(key: Tensor, bits: int) -> Tensor:
    return (key >> bits) & ((1 << (64 - bits)) - 1)  # torch shifts the sign in: clear it


def uniform(seed: int, key: Tensor) -> Tensor:
    """One draw in [0, 1) per key, in float64.

    >>> uniform(0, torch.tensor([1, 2])) == uniform(0, torch.tensor([1, 2]))
    tensor([True, True])
    """
    return _shift(mix(key ^ mix(torch.full_like(key, seed))), 11).double() * 2.0**-53


def token_keys(key: Tensor, tokens: int, mask: Tensor | None) -> Tensor:
    """A key for each token `[batch, token]` from its example's key and its place."""
    return mix(key[:, None] + mix(_places(tokens, mask, key.device)))


def _places(tokens: int, mask: Tensor | None, device: torch.device) -> Tensor:
    """Where each token stands, counted in real tokens: padding moves none, on whichever side it is."""
    return torch.arange(tokens, device=device) if mask is None else mask.to(device).cumsum(1) - 1


def content_key(inputs: Tree, mask: Tensor | None) -> Tensor:
    """A key for each example `[batch]` from its own numbers: the same in any batch, padding left out."""
    total: Tensor | int = 0
    for number, leaf in enumerate(leaves(inputs)):
        bits = (leaf.double() + 0.0).view(torch.int64)  # adding zero makes -0.0 and 0.0 one
        real = mask if mask is not None and bits.shape[:2] == mask.shape else None
        bits = bits[..., None].flatten(1 if real is None else 2)
        places = torch.arange(bits.shape[-1], device=bits.device) + (number << 32)
        if real is not None:
            places = places + bits.shape[-1] * _places(bits.shape[1], real, bits.device)[..., None]
        scrambled = mix(bits + mix(places))  # the bits alone are mostly zeros: 1.0 and -1.0 differ in one
        if real is not None:
            scrambled = (scrambled * real.to(bits.device)[..., None]).flatten(1)
        total = total + scrambled.sum(1)
    if not isinstance(total, Tensor):
        raise ValueError("there is no input to name the examples by: call net(x, key=...) with a number for each")
    return mix(total)
