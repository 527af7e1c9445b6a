"""A block is the transformer layer everyone knows: torch's own, given the same weights."""

import pytest
import torch
from torch import Tensor, nn

import ponderosa as po
from ponderosa.steps.block import Block
from ponderosa.steps.tokens import Tokens


def torch_layer(block: Block) -> nn.TransformerEncoderLayer:
    """torch's layer with the weights of ours."""
    layer = nn.TransformerEncoderLayer(
        block.size, block.heads, block.mlp[0].out_features, 0.0, "gelu", batch_first=True, norm_first=block.norm == "pre"
    ).double()
    attention = layer.self_attn
    with torch.no_grad():
        attention.in_proj_weight.copy_(torch.cat([block.query.weight, block.key_value.weight]))
        attention.in_proj_bias.copy_(torch.cat([block.query.bias, block.key_value.bias]))
    pairs = [(attention.out_proj, block.out), (layer.linear1, block.mlp[0]), (layer.linear2, block.mlp[2])]
    for theirs, ours in [*pairs, (layer.norm1, block.norm_attention), (layer.norm2, block.norm_mlp)]:
        theirs.load_state_dict(ours.state_dict())
    return layer


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_block_is_torchs_layer(norm: str, packed: bool) -> None:
    torch.manual_seed(0)
    step = po.TransformerStep(12, 3, layers=2, mlp_size=20, norm=norm).double()
    for parameter in step.parameters():
        nn.init.normal_(parameter, std=0.5)
    x = torch.randn(4, 7, 12, dtype=torch.float64)
    mask = torch.arange(7) < torch.tensor([[7], [3], [1], [5]])
    expected: Tensor = torch_layer(step.layers[1])(x, src_key_padding_mask=~mask)
    context = step.prepare(x, mask)
    found = step.advance_packed(context, x, 2, Tokens(mask)) if packed else step.advance(context, x, 2)
    torch.testing.assert_close(found[mask], expected[mask])
    if packed:
        torch.testing.assert_close(found[~mask], x[~mask])


@pytest.mark.parametrize("tied", [True, False])
def test_known_keys_and_values_are_not_computed_again(tied: bool) -> None:
    """A tied block without a signal shows what a frozen token showed before; layers of their own compute it anew."""
    torch.manual_seed(0)
    step = po.TransformerStep(8, 2, layers=None if tied else 4)
    rows: list[int] = []
    for layer in step.layers:
        layer.key_value.register_forward_hook(lambda module, given, out: rows.append(given[0][..., 0].numel()))
    net = po.Ponder(step, po.PlannedDepth(unit="token"), max_steps=4).eval()
    depth = torch.tensor([[1, 2, 4, 4, 4], [1, 1, 1, 1, 3]])
    net(torch.randn(2, 5, 8), depth=depth)
    # step 1: all ten; then the untied layers all ten while an example goes on, the tied one only those of the step before
    assert rows == ([10, 10, 5, 3] if tied else [10, 10, 10, 5])


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="heads must divide the size"):
        po.TransformerStep(10, 3)
    with pytest.raises(ValueError, match='choose "pre" or "post"'):
        po.TransformerStep(8, 2, norm="middle")
    with pytest.raises(ValueError, match="a signal only for a repeated one"):
        po.TransformerStep(8, 2, layers=3, step_signal=3)
