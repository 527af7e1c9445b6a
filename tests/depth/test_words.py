"""Words from token ids: the same depths as from the words' texts, for every kind of tokenizer."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import ponderosa as po
from ponderosa.depth import WordTable
from ponderosa.depth.occurrences import Occurrences, _encoded
from ponderosa.depth.words import Vocabulary, split_words, word_keys
from tests.adapt.models import real_encoder, transformers, wordpiece

PIECES = ["play", "##ing", "##er", "film", "good", "bad", ".", "##s", "a"]
TEXTS, LABELS = ["playing a good film.", "bad films", "good player.", "bad, bad films"], [1, 0, 1, 0]


def byte_level() -> Any:
    """A byte-level BPE tokenizer, as RoBERTa's, trained on a few words."""
    from tokenizers import ByteLevelBPETokenizer

    made = ByteLevelBPETokenizer()
    made.train_from_iterator(TEXTS * 3, vocab_size=290, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made._tokenizer, pad_token="<pad>", unk_token="<unk>", bos_token="<s>", eos_token="</s>"
    )


def unigram() -> Any:
    """A SentencePiece-like tokenizer."""
    from tokenizers import SentencePieceUnigramTokenizer

    made = SentencePieceUnigramTokenizer()
    made.train_from_iterator(TEXTS * 3, vocab_size=40, special_tokens=["<pad>", "<unk>"], unk_token="<unk>")
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made._tokenizer, pad_token="<pad>", unk_token="<unk>")


@pytest.mark.parametrize("make", [lambda: wordpiece(PIECES), byte_level, unigram], ids=["wordpiece", "byte-level", "unigram"])
def test_pieces_share_the_depth_of_their_word(make: Any) -> None:
    tokenizer = make()
    estimator = po.MutualInformation.fit(TEXTS, LABELS, tokenizer, layers=5)
    for text in TEXTS:
        given = tokenizer(text, return_tensors="pt")
        of_tokens = estimator.depths(given["input_ids"])[0]
        words: dict[int, set[int]] = {}
        pieces = tokenizer.convert_ids_to_tokens(given["input_ids"][0])
        for depth, word, piece in zip(of_tokens.tolist(), given.word_ids(0), pieces, strict=True):
            if word is not None and piece.strip("Ġ▁#").isalpha():
                words.setdefault(word, set()).add(depth)
        assert all(len(depths) == 1 for depths in words.values())
        signs = [word.isalpha() for word in split_words(text, True)]
        of_words = [depth for depth, is_word in zip(estimator.depths(text), signs, strict=True) if is_word]
        assert [depths.pop() for depths in words.values()] == of_words


def test_wordpiece_by_hand() -> None:
    tokenizer = wordpiece(PIECES)
    estimator = po.MutualInformation.fit(TEXTS, LABELS, tokenizer, layers=5)
    assert set(estimator.table) == {"playing", "a", "good", "film", ".", "bad", "films", "player"}  # the comma is unknown
    given = tokenizer(["playing films", "good", "zebra"], padding=True, return_tensors="pt")
    table = estimator.table
    deep = max(table["playing"], table["films"])
    expected = [
        [deep, table["playing"], table["playing"], table["films"], table["films"], deep],
        [table["good"]] * 6,
        [5] * 6,
    ]
    assert estimator.depths(given["input_ids"]).tolist() == expected
    assert po.PlannedDepth(estimator).unit == "token"


def test_pieces_as_words_of_their_own() -> None:
    tokenizer = wordpiece(PIECES)
    estimator = po.MutualInformation.fit(TEXTS, LABELS, tokenizer, layers=5, whole_words=False)
    assert {"ing", "s"} <= set(estimator.table)


def test_neighbours_and_padding_change_nothing() -> None:
    tokenizer = wordpiece(PIECES)
    estimator = po.MutualInformation.fit(TEXTS, LABELS, tokenizer, layers=5)
    ids = tokenizer(TEXTS, padding="max_length", max_length=14, return_tensors="pt")["input_ids"]
    together = estimator.depths(ids)
    for row, text in enumerate(TEXTS):
        alone = estimator.depths(tokenizer(text, return_tensors="pt")["input_ids"])
        assert together[row : row + 1, : alone.shape[1]].tolist() == alone.tolist()


@given(
    st.lists(st.text("abAB é.,_£[]-\t", max_size=12) | st.sampled_from(["a [SEP] b", "[UNK]", "aa\x00b", "日本"]), min_size=1)
)
@settings(max_examples=60, deadline=None)
def test_plain_texts_are_split_as_the_tokenizer_does(texts: list[str]) -> None:
    """The short cut for plain texts finds the very words that the tokenizer does."""
    tokenizer = wordpiece(["a", "b", "##a", "##b", ".", "_", "e", "##e", "[", "]", "-", "日"])
    vocabulary = Vocabulary.of(tokenizer)
    found = Occurrences.of(texts, tokenizer)
    slow = Occurrences._tokenised(_encoded(texts, tokenizer), vocabulary)
    pairs = [
        {(text, each.words[word]) for text, word in zip(each.text.tolist(), each.word.tolist(), strict=True)}
        for each in (found, slow)
    ]
    assert pairs[0] == pairs[1]
    assert len(found.text) == len(pairs[0])
    assert sorted(found.words) == sorted(slow.words)


def test_keys_do_not_depend_on_the_pieces() -> None:
    vocabulary = Vocabulary(["ab", "c", "a", "bc", "abc", "."], [1, 3], [], None, False)
    keys = vocabulary.keys(torch.tensor([[0, 1, 5, 2, 3, 4]]))[0]
    assert keys[0] == keys[1] == keys[3] == keys[4] == keys[5] == word_keys(["abc"])[0]
    assert keys[2] == word_keys(["."])[0]
    many = [f"{i}" for i in range(50_000)]
    assert len(word_keys(many).unique()) == len(many)


def test_a_slow_or_unknown_tokenizer_is_refused() -> None:
    with pytest.raises(ValueError, match="supported are fast tokenizers with WordPiece"):
        po.MutualInformation.fit(["a"], [0], object())


@pytest.mark.shared
def test_the_real_tokenizer_s_words() -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(real_encoder())
    texts = ["An unbelievably good film!", "An atrociously bad film."]
    estimator = po.MutualInformation.fit(texts, [1, 0], tokenizer)
    assert set(estimator.table) == {"an", "unbelievably", "good", "film", "!", "atrociously", "bad", "."}


def test_whole_words_are_looked_up_as_those_in_pieces_are() -> None:
    """A text of whole words takes a short cut, which knows what was changed since."""
    tokenizer = wordpiece(PIECES)
    estimator = po.MutualInformation.fit(TEXTS, LABELS, tokenizer, layers=5)
    whole, both = (
        tokenizer(texts, padding=True, return_tensors="pt")["input_ids"] for texts in (["good"], ["good", "playing"])
    )
    assert estimator.depths(whole)[0, 1] == estimator.depths(both)[0, 1] == estimator.table["good"]
    other = estimator.without(["good"])
    assert other.depths(whole)[0, 1] == other.depths(both)[0, 1] == 5
    other.unseen = 2
    assert other.depths(whole)[0, 1] == other.depths(both)[0, 1] == 2


def test_no_word_goes_less_deep_than_asked() -> None:
    tokenizer = wordpiece(["good", "bad", "play"])
    estimator = WordTable({"good": 1, "bad": 4}, layers=5, unseen=2, vocabulary=Vocabulary.of(tokenizer))
    ids = tokenizer(["good bad play"], return_tensors="pt")["input_ids"]
    assert estimator.depths(ids).tolist() == [[4, 1, 4, 2, 4]]
    deeper = estimator.at_least(3)
    assert deeper.depths(ids).tolist() == [[4, 3, 4, 3, 4]]
    assert deeper.of_words(["good", "bad", "play"]) == [3, 4, 3]
    assert estimator.depths(ids).tolist() == [[4, 1, 4, 2, 4]]
    with pytest.raises(ValueError, match="depth=6: from 1 to layers=5 is needed"):
        estimator.at_least(6)
