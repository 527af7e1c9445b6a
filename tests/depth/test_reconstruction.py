"""Reconstruction and oracle: small encoders, depths that fall with the penalty, tables that survive a file."""

from pathlib import Path

import pytest
import torch

import ponderosa as po
from ponderosa.depth.masked_language import MaskedLanguageModel
from ponderosa.depth.reconstruction import penalised_depth, word_losses
from ponderosa.depth.words import Vocabulary
from tests.adapt.models import LAYERS, model, wordpiece

WORDS = ["play", "##ing", "film", "good", "bad", "."]
TEXTS = ["good playing .", "bad film .", "good film", "bad playing film ."]


def test_depth_falls_as_the_penalty_grows() -> None:
    losses = torch.rand(12, 500, generator=torch.Generator().manual_seed(0)).sort(0, descending=True).values
    means = [penalised_depth(losses, penalty).double().mean().item() for penalty in (0.0, 0.05, 0.1, 0.2, 1.0)]
    assert means == sorted(means, reverse=True)
    assert (means[0], means[-1]) == (12, 1)


def test_each_word_is_masked_in_turn_with_all_its_pieces() -> None:
    tokenizer = wordpiece(WORDS)
    encoder = model("bert-encoder").float()
    lm = MaskedLanguageModel(encoder, tokenizer.mask_token_id, 0).eval()
    encoded = tokenizer(TEXTS)["input_ids"]
    found = word_losses(lm, encoded, Vocabulary.of(tokenizer), batch_size=3, occurrences=9)
    assert {word: each.shape[1] for word, each in found.items()} == {"good": 2, "playing": 2, ".": 3, "bad": 2, "film": 3}
    ids = torch.tensor([encoded[0]])
    chosen = torch.tensor([[False, False, True, True, False, False]])
    with torch.no_grad():
        by_hand = lm.losses(ids, ids.masked_fill(chosen, tokenizer.mask_token_id), chosen).mean(1)
    columns = [column for column in found["playing"].unbind(1) if torch.allclose(column, by_hand, atol=1e-5)]
    assert len(columns) == 1
    once = word_losses(lm, encoded, Vocabulary.of(tokenizer), batch_size=3, occurrences=1)
    assert {word: each.shape[1] for word, each in once.items()} == dict.fromkeys(found, 1)


def test_words_masked_together_stand_far_from_each_other() -> None:
    tokenizer = wordpiece(WORDS)
    lm = MaskedLanguageModel(model("bert-encoder").float(), tokenizer.mask_token_id, 0).eval()
    encoded = tokenizer(["good . . . playing . . . . film"])["input_ids"]
    found = word_losses(lm, encoded, Vocabulary.of(tokenizer), batch_size=3, occurrences=1, together=3)
    ids = torch.tensor(encoded)  # [CLS] good . . . play ##ing . . . . film [SEP]
    chosen = torch.zeros_like(ids).bool()
    chosen[0, [1, 11]] = True  # "playing" is too near to both
    with torch.no_grad():
        by_hand = lm.losses(ids, ids.masked_fill(chosen, tokenizer.mask_token_id), chosen)
    torch.testing.assert_close(torch.cat([found["good"], found["film"]], 1), by_hand)
    assert {word: each.shape[1] for word, each in found.items()} == dict.fromkeys(["good", "playing", "film", "."], 1)
    with pytest.raises(ValueError, match="together=0"):
        po.Reconstruction.fit(TEXTS, tokenizer=tokenizer, encoder=lm.encoder, together=0)


def test_fitted_saved_and_loaded(tmp_path: Path) -> None:
    tokenizer, encoder = wordpiece(WORDS), model("bert").float()
    before = {name: p.clone() for name, p in encoder.named_parameters()}
    fits = {
        penalty: po.Reconstruction.fit(TEXTS, tokenizer=tokenizer, encoder=encoder, penalty=penalty, batches=5, batch_size=2)
        for penalty in (0.0, 10.0)
    }
    assert all(torch.equal(p, before[name]) for name, p in encoder.named_parameters())  # a copy was trained
    assert set(fits[10.0].table.values()) == {1}
    assert all(fits[0.0].mean[word] >= depth for word, depth in fits[10.0].mean.items())
    fits[0.0].save(tmp_path / "depths.json")
    again = po.Reconstruction.load(tmp_path / "depths.json")
    ids = tokenizer(TEXTS, padding=True, return_tensors="pt")["input_ids"]
    assert again.depths(ids).tolist() == fits[0.0].depths(ids).tolist()
    assert again.depths("unheard") == [LAYERS]


def test_it_chooses_among_the_pieces_that_it_is_told() -> None:
    """The loss is that of the softmax over these pieces alone, and their rows of the embeddings alone are its matrix."""
    tokenizer, encoder = wordpiece(WORDS), model("bert-encoder").float()
    ids = torch.tensor(tokenizer(TEXTS[:1])["input_ids"])
    pieces, chosen = ids.unique(), torch.tensor([[False, True, False, False, False, False]])
    few = MaskedLanguageModel(encoder, tokenizer.mask_token_id, 0, pieces).eval()
    hidden = ids.masked_fill(chosen, tokenizer.mask_token_id)
    with torch.no_grad():
        states = torch.stack(encoder(hidden, attention_mask=ids.ne(0).long(), output_hidden_states=True).hidden_states[1:])
        logits = few.transform(states[:, chosen]) @ encoder.get_input_embeddings().weight[pieces].T
        expected = -logits.log_softmax(-1)[..., pieces.tolist().index(ids[chosen].item())]
        torch.testing.assert_close(few.losses(ids, hidden, chosen), expected)


def test_training_lowers_the_loss() -> None:
    tokenizer = wordpiece(WORDS)
    torch.manual_seed(0)
    lm = MaskedLanguageModel(model("bert-encoder").float(), tokenizer.mask_token_id, 0)
    encoded = tokenizer(TEXTS)["input_ids"]
    special = Vocabulary.of(tokenizer).is_special(torch.arange(len(tokenizer)))
    first = lm.fit(encoded, special, batches=1, batch_size=16, lr=1e-3, seed=0)
    last = lm.fit(encoded, special, batches=40, batch_size=16, lr=1e-3, seed=0)
    assert last < first


def test_oracle(tmp_path: Path) -> None:
    tokenizer = wordpiece(WORDS)
    oracle = po.Oracle.fit(TEXTS, [1, 2, 3, 4], tokenizer, layers=5)
    oracle.save(tmp_path / "depths.json")
    again = po.Oracle.load(tmp_path / "depths.json")
    for each in (oracle, again):
        assert each.depths("bad film .") == [2, 2, 2]
        ids = tokenizer([TEXTS[1], "film bad ."], padding=True, return_tensors="pt")["input_ids"]
        assert each.depths(ids).tolist() == [[2] * 5, [5] * 5]


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="a tokenizer with a mask token"):
        po.Reconstruction.fit(["a"], encoder=None)
    with pytest.raises(ValueError, match="from 1 to 3 are possible"):
        po.Oracle({"1": 4}, layers=3)
