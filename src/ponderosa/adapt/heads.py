"""What a pretrained classifier makes of its last states, as a head of its own."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ponderosa.adapt import heads_native
from ponderosa.host import Array, tensor
from ponderosa.tree import token_mean


class First(nn.Module):
    """The state of the first token `[batch, size]`."""

    def forward(self, state: Tensor) -> Tensor:
        return state[:, 0]


def classification_head(model: Any, norm: nn.Module | None) -> nn.Module:
    """The head of a sequence or image classifier of `transformers`, made of its own modules; `norm` is the encoder's last."""
    if hasattr(model, "pre_classifier"):  # DistilBERT
        return nn.Sequential(First(), model.pre_classifier, nn.ReLU(), model.dropout, model.classifier)
    if norm is not None:  # ViT, DeiT
        return nn.Sequential(First(), norm, model.classifier)
    if getattr(model.base_model, "pooler", None) is not None:  # BERT
        return nn.Sequential(model.base_model.pooler, model.dropout, model.classifier)
    return model.classifier  # RoBERTa, ELECTRA, MPNet: it picks the first token itself


class MaxMeanClassifier(nn.Module):
    """ReLU([max; mean]) over the tokens, padding left out, then a linear layer (Liu et al., 2021, equation 6).

    >>> MaxMeanClassifier(8, 3)(torch.randn(2, 5, 8), torch.ones(2, 5, dtype=torch.bool)).shape
    torch.Size([2, 3])

    Args:
        size: of a token's state.
        classes: of the answer.
        dropout: on what is pooled, in training.
    """

    reads_mask = True

    def __init__(self, size: int, classes: int, dropout: float = 0.1):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(2 * size, classes)

    def forward(self, state: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.classifier(self.dropout(max_mean(state, mask)))

    def packed(self, rows: Tensor, counts: Array) -> Tensor:
        """The same of packed tokens `[rows, size]`, so many of each example."""
        return self.classifier(self.dropout(max_mean_packed(rows, counts)))


def max_mean(state: Tensor, mask: Tensor | None = None) -> Tensor:
    """ReLU([max; mean]) `[batch, 2 size]` of states `[batch, token, size]`; True in the mask for what is not padding.

    >>> max_mean(torch.tensor([[[1.0, -2.0], [3.0, -4.0], [9.0, 9.0]]]), torch.tensor([[True, True, False]]))
    tensor([[3., 0., 2., 0.]])
    """
    # relu(max(h)) is the largest of the tokens and zero, so padding may be zero here
    shown = state if mask is None else torch.where(mask[..., None], state, 0.0)
    return F.relu(torch.cat([shown.amax(1), token_mean(state, mask)], -1))


def max_mean_packed(rows: Tensor, counts: Array) -> Tensor:
    """The same of packed tokens `[rows, size]`, so many of each example, one at least.

    >>> import numpy as np
    >>> max_mean_packed(torch.tensor([[1.0, -2.0], [3.0, -4.0], [9.0, 9.0]]), np.array([2, 1]))
    tensor([[3., 0., 2., 0.],
            [9., 9., 9., 9.]])
    """
    if counts.sum() != len(rows) or counts.min(initial=1) < 1:
        raise ValueError(f"{len(rows)} rows for examples of {counts.tolist()}: one at least for each, as many as there are")
    if len(counts) == 1:
        return F.relu(torch.cat([rows.amax(0, keepdim=True), rows.mean(0, keepdim=True)], -1))
    if heads_native.fits(rows):
        return heads_native.max_mean(rows, counts)
    lengths = tensor(counts, rows)
    owner = torch.repeat_interleave(torch.arange(len(counts), device=rows.device), lengths)[:, None].expand_as(rows)
    room = rows.new_zeros(len(counts), rows.shape[1])
    largest = room.scatter_reduce(0, owner, rows, "amax")  # zero is among them: relu would make it so
    mean = room.scatter_add(0, owner, rows) / lengths[:, None]
    return F.relu(torch.cat([largest, mean], -1))
