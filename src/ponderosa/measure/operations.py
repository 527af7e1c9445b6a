"""Counting operations: torch's counter, with the operators of the CPU that it passes over in silence.

An operation is one multiplication or one addition of a matrix product; nothing else counts.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

aten = torch.ops.aten
Shape = Sequence[int]


def counting() -> FlopCounterMode:
    """A counter of the operations done inside `with counting() as counter`, as `counter.get_total_flops()` tells."""
    return FlopCounterMode(display=False, custom_mapping=MISSING)


def count(call: Callable[..., object], *inputs: Any) -> int:
    """The operations of one call, without gradients."""
    with counting() as counter, torch.no_grad():
        call(*inputs)
    return counter.get_total_flops()


def _attention(query: Shape, key: Shape, value: Shape, *args: Any, **kwargs: Any) -> int:
    """`[batch, head, token, size]` each: scores, and the values they weigh."""
    return sdpa_flop_count(query, key, value)


def _attention_backward(grad: Shape, query: Shape, key: Shape, value: Shape, *args: Any, **kwargs: Any) -> int:
    return sdpa_backward_flop_count(grad, query, key, value)


def _lstm(x: Shape, inward: Shape, onward: Shape, *args: Any, **kwargs: Any) -> int:
    """One layer in one direction: x `[time, batch, input]`, weights `[4 hidden, input]` and `[4 hidden, hidden]`."""
    return 2 * x[0] * x[1] * (math.prod(inward) + math.prod(onward))


def _lstm_backward(*args: Any, **kwargs: Any) -> int:
    """The gradients of the inputs and those of the weights: as much as forward each."""
    return 2 * _lstm(*args, **kwargs)


def _matrix_vector(matrix: Shape, *args: Any, **kwargs: Any) -> int:
    return 2 * math.prod(matrix)


def _added_matrix_vector(added: Shape, matrix: Shape, *args: Any, **kwargs: Any) -> int:
    return 2 * math.prod(matrix)


def _bilinear(x: Shape, weight: Shape, *args: Any, out_shape: Shape, **kwargs: Any) -> int:
    """What nn.Bilinear calls, weights `[output, left, right]`."""
    return 2 * math.prod(out_shape) * weight[-2] * weight[-1]


def _self_attention(x: Tensor, key: Tensor, value: Tensor, size: int, *args: Any, **kwargs: Any) -> int:
    """The fast path of nn.MultiheadAttention: x `[batch, token, size]`, or nested."""
    tokens, pairs = _tokens(x)
    return 2 * tokens * 4 * size * size + 4 * pairs * size


def _encoder_layer(
    x: Tensor, size: int, heads: int, *weights: Any, out_val: Any = None, mask: Any = None, mask_type: Any = None
) -> int:
    """The fast path of nn.TransformerEncoderLayer: `weights` begin with the attention's four, then the flags and norms."""
    feed_forward = weights[11].numel() + weights[13].numel()
    return _self_attention(x, x, x, size) + 2 * _tokens(x)[0] * feed_forward


def _tokens(x: Tensor) -> tuple[int, int]:
    """The tokens of a batch and the pairs of them that attention computes: it pads a nested batch to its longest example."""
    lengths = [len(example) for example in x.unbind()] if x.is_nested else [x.shape[1]] * len(x)
    return sum(lengths), len(lengths) * max(lengths, default=0) ** 2


# a nested tensor has no shape, so these two see the tensors themselves
_self_attention._get_raw = _encoder_layer._get_raw = True  # type: ignore[attr-defined]

MISSING: dict[Any, Callable[..., int]] = {
    aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
    aten.mkldnn_rnn_layer: _lstm,
    aten.mkldnn_rnn_layer_backward: _lstm_backward,
    aten._native_multi_head_attention: _self_attention,
    aten._transformer_encoder_layer_fwd: _encoder_layer,
    aten._trilinear: _bilinear,
    aten.mv: _matrix_vector,
    aten.dot: _matrix_vector,
    aten.addmv: _added_matrix_vector,
}
"""Operators that torch's counter takes for free: they are what nn.LSTM, attention and the encoder layer call on a CPU."""
