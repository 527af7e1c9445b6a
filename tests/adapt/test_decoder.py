"""Adaptive decoding: full depth is `transformers`' own decoding, and early exits are what CALM says, whoever else is there."""

from typing import Any

import pytest
import torch
from torch import Tensor

from ponderosa.adapt.decoder import TokenHead
from ponderosa.adapt.writer import AdaptiveWriter
from ponderosa.measure.operations import count
from ponderosa.measure.written import greedy
from tests.text_to_text import LONGEST, questions, t5


@pytest.mark.parametrize("form", ["relu", "gated-gelu", "untied"])
def test_full_depth_is_the_decoding_of_transformers(form: str) -> None:
    model = t5(form)
    x, mask = questions()
    theirs = greedy(model, x, mask, LONGEST)
    assert torch.equal(theirs, greedy(model, x, mask, LONGEST, cache=False))
    draft = AdaptiveWriter(model, 1.0, longest=LONGEST).write(x, mask)
    assert torch.equal(draft.ids, theirs)
    assert len(theirs.unique()) > 5, "a model that always says the same proves nothing"
    assert (theirs == 1).any(), "some answer should end"
    assert draft.depths[draft.depths > 0].eq(3).all()


@pytest.mark.parametrize("threshold", [0.2, 0.3, 0.4])
def test_early_exits_by_the_letter(threshold: float) -> None:
    """Against a plain rendering of CALM, one example and one token at a time, on the modules' own calls."""
    model = t5("relu")
    x, mask = questions()
    draft = AdaptiveWriter(model, threshold, longest=LONGEST).write(x, mask)
    for row in range(len(x)):
        ids, depths = by_hand(model, x[row][mask[row]][None], threshold)
        count = len(ids)
        assert draft.ids[row, :count].tolist() == ids
        assert draft.depths[row, :count].tolist() == depths
        assert not draft.depths[row, count:].any()
    assert 1 < draft.mean_depth < 3


@torch.no_grad()
def by_hand(model: Any, x: Tensor, threshold: float) -> tuple[list[int], list[int]]:
    """All layers' inputs of all tokens are kept; a token that left early repeats its state in the layers above."""
    encoded = model.encoder(input_ids=x).last_hidden_state
    head, blocks = TokenHead(model), model.decoder.block
    inputs: list[list[Tensor]] = [[] for _ in blocks]
    ids, depths, last = [], [], model.config.decoder_start_token_id
    for place in range(LONGEST):
        state, depth = model.decoder.embed_tokens(torch.tensor([[last]])), len(blocks)
        bias = blocks[0].layer[0].SelfAttention.compute_bias(place + 1, place + 1)[:, :, -1:]
        for n, block in enumerate(blocks):
            inputs[n].append(state)
            if n < depth:
                state = _layer(block, torch.cat(inputs[n], 1), bias, encoded)
                sure = float(head(state).softmax(-1).max()) >= threshold
                depth = n + 1 if sure else depth
        last = int(head(state)[0, 0].argmax())
        ids.append(last)
        depths.append(depth)
        if last == model.config.eos_token_id:
            break
    return ids, depths


def _layer(block: Any, states: Tensor, bias: Tensor, encoded: Tensor) -> Tensor:
    """The last token's next state."""
    own, across, forward = block.layer
    attention = own.SelfAttention
    normed = own.layer_norm(states)
    q, k, v = (
        part(normed).unflatten(-1, (attention.n_heads, -1)).transpose(1, 2) for part in (attention.q, attention.k, attention.v)
    )
    found = ((q[:, :, -1:] @ k.transpose(2, 3) + bias).softmax(-1) @ v).transpose(1, 2).flatten(2)
    return forward(across(states[:, -1:] + attention.o(found), key_value_states=encoded)[0])


def test_exits_save_operations() -> None:
    model = t5("relu")
    x, mask = questions()
    full, fast = (AdaptiveWriter(model, threshold, longest=4) for threshold in (1.0, 1e-6))
    model.generation_config.eos_token_id = model.config.eos_token_id = 10_000  # all write four tokens
    done, saved = (count(writer.write, x, mask) for writer in (full, fast))
    size, source = 16, x.shape[1]
    keys_values = 2 * source * size * size  # of the source
    each = 4 * size * size + 2 * size * 32 + 2 * source * size  # q and o of both attentions, forward, looking at the source
    itself = sum(2 * tokens * size for tokens in range(1, 5))
    assert done - saved == 2 * 2 * len(x) * (keys_values + 4 * each + itself)  # of two layers, two for a multiply-add


@pytest.mark.parametrize("threshold", [0.0, -1.0, float("nan")])
def test_a_threshold_that_means_nothing(threshold: float) -> None:
    with pytest.raises(ValueError, match="a probability above 0"):
        AdaptiveWriter(t5("relu"), threshold)


def test_another_family_is_refused() -> None:
    from transformers import BartConfig, BartForConditionalGeneration

    bart = BartForConditionalGeneration(
        BartConfig(d_model=8, encoder_layers=1, decoder_layers=1, encoder_attention_heads=1, decoder_attention_heads=1,
                   encoder_ffn_dim=8, decoder_ffn_dim=8, vocab_size=20)
    )  # fmt: skip
    with pytest.raises(ValueError, match="is not a T5"):
        AdaptiveWriter(bart)
