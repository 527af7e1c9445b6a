"""Depths dealt at random within each sentence: a control must be as deep, and hold for a sentence whatever is beside it."""

import torch

import ponderosa as po
from ponderosa.depth import Shuffled
from tests.adapt.models import wordpiece

TEXTS = ["a fine film of some length", "some film", "a length of film , some fine film"]


def test_the_depths_of_a_sentence_change_places() -> None:
    tokenizer = wordpiece(sorted({word for text in TEXTS for word in text.split()}))
    words = po.MutualInformation.fit(TEXTS, [0, 1, 0], tokenizer, layers=6)
    control = Shuffled(words.table, layers=6, unseen=words.unseen, vocabulary=words.vocabulary)
    ids = tokenizer(TEXTS, padding=True, return_tensors="pt")["input_ids"]
    ours, theirs = control.depths(ids), words.depths(ids)
    assert torch.equal(ours.sort(1).values, theirs.sort(1).values)
    assert not torch.equal(ours, theirs)
    assert torch.equal(ours[ids == tokenizer.cls_token_id], theirs[ids == tokenizer.cls_token_id])
    alone = tokenizer(TEXTS[1:2], return_tensors="pt")["input_ids"]
    assert torch.equal(control.depths(alone)[0], ours[1, : alone.shape[1]])
