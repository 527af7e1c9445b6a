"""Pointer-value retrieval as text: questions and answers say what the numbers say, and only true answers count."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ponderosa.tasks import CPVR, CPVRText
from ponderosa.tasks.cpvr_answers import KINDS, KINDS_WITHOUT, MALFORMED, RIGHT, Answer, judge, parse
from ponderosa.tasks.cpvr_text import IGNORED, word_tokenizer

tasks = st.builds(
    lambda length, modulus, pad: CPVRText(length, 10 * length if modulus else None, pad, test_hops=min(9, length - 2)),
    st.integers(6, 30), st.booleans(), st.booleans(),
)  # fmt: skip
number = st.integers(0, 300).map(str)
answers = st.builds(lambda label, pad: Answer(label, tuple(pad)), number, st.lists(number, min_size=1, max_size=5))
alphabet = st.sampled_from("0123456789 #\n\t-.x٣")
texts = st.text(alphabet, max_size=12) | answers.map(lambda a: f"{a.label} # {' '.join(a.pad)}")


def way(row: list[int], task: CPVR) -> list[int]:
    """The numbers on the way and the label, as the paper tells it."""
    said, here, found = [v % task.length if task.values else v for v in row], 1, []
    while said[here - 1] > here:
        found.append(row[here - 1])
        here = said[here - 1]
    return [*found, said[here - 1]]


@given(tasks, st.sampled_from(["train", "validation", "test"]), st.integers(0, 20), st.integers(1, 20))
@settings(max_examples=40, deadline=None)
def test_texts_say_what_the_numbers_say(task: CPVRText, split: str, index: int, size: int) -> None:
    """From text back to numbers, solved, and to the answer's text again."""
    said = task.texts(split, index, size)
    x = torch.tensor([[int(word) for word in question.split(" ")] for question in said.questions])
    assert task.answers(x) == said.answers
    for row, text, label, hops in zip(
        x.tolist(), said.answers, task.numbers.solve(x).tolist(), said.hops.tolist(), strict=True
    ):
        answer = parse(text, task.scratch_pad)
        assert answer is not None
        assert int(answer.label) == int(answer.last) == label
        if task.scratch_pad:
            assert [int(word) for word in answer.pad] == way(row, task.numbers)
            assert len(answer.pad) == hops + 1


@given(tasks, st.integers(0, 40), st.integers(1, 8))
@settings(max_examples=20, deadline=None)
def test_tokens_say_what_the_texts_say(task: CPVRText, index: int, size: int) -> None:
    """Every batch decodes to true answers, and comes again by its number; they all score."""
    batch = task.batch("train", index, size)
    questions = [task.tokenizer.decode(row[row != task.tokenizer.pad_token_id][:-1]) for row in batch.x]
    x = torch.tensor([[int(word) for word in question.split(" ")] for question in questions])
    assert task.written(batch.y) == task.answers(x)
    assert task.score(batch.y, batch.y).eq(1).all()
    assert torch.equal(task.batch("train", index, size).x, batch.x)


@given(texts, answers, st.booleans())
@settings(max_examples=500, deadline=None)
def test_every_text_is_of_one_kind(text: str, truth: Answer, scratch_pad: bool) -> None:
    """Malformed is whatever does not give itself back; it is right in nothing. Kinds follow from label and pad alone."""
    truth = truth if scratch_pad else Answer(truth.label)
    verdict, said = judge(text, truth), parse(text, scratch_pad)
    assert verdict.kind in (KINDS if scratch_pad else KINDS_WITHOUT)
    assert (verdict.kind == MALFORMED) == (said is None)
    if said is None:
        assert not verdict.label
        assert not verdict.last
        return
    assert text == (f"{said.label} # {' '.join(said.pad)}" if scratch_pad else said.label)
    assert verdict.label == (int(said.label) == int(truth.label))
    assert verdict.last == (int(said.last) == int(truth.last))
    assert (verdict.kind == RIGHT) == (said == truth)


@pytest.mark.parametrize(
    ("text", "kind", "label", "last"),
    [
        ("9 # 3 12 9", RIGHT, True, True),
        ("7 # 3 12 9", "pad exact, label wrong", False, True),
        ("9 # 3 9", "label right, pad inexact", True, True),
        ("9 # 3 12 7", "label right, pad inexact", True, False),
        ("7 # 3 12 7", "both wrong, consistent", False, False),
        ("7 # 4 12 9", "both wrong, inconsistent", False, True),
        ("7 # 3 12 8", "both wrong, inconsistent", False, False),
    ],
)
def test_kinds_by_hand(text: str, kind: str, label: bool, last: bool) -> None:
    assert judge(text, Answer("9", ("3", "12", "9"))) == (kind, label, last)


@pytest.mark.parametrize(
    "text",
    ["", " ", "9", "9 #", "# 9", "9 # ", "9 #3 12 9", " 9 # 3 12 9", "9 # 3 12 9 ", "9 # 3 12 9\n", "9  # 3 12 9", "09 # 9",
     "9 # 3 12 9 ...", "9 # 3 # 12 9", "-9 # 3 12 9", "9.0 # 3", "٩ # 3 12 9", "9 # 3 <pad> 12 9", "9 # 3 <unk> 9"],
)  # fmt: skip
def test_malformed_is_never_a_lucky_hit(text: str) -> None:
    assert judge(text, Answer("9", ("3", "12", "9"))) == (MALFORMED, False, False)


def test_a_number_that_nobody_can_count_to_is_wrong_and_no_crash() -> None:
    assert judge("9" * 10_000, Answer("9")).kind == "label wrong"


def test_an_answer_without_an_end_is_malformed() -> None:
    task = CPVRText(12)
    batch = task.batch("test", 0, 9)
    end = task.tokenizer.eos_token_id
    endless = batch.y.masked_fill(batch.y == end, IGNORED)
    assert [verdict.kind for verdict in task.judge(endless, batch.y)] == [MALFORMED] * 9
    marked = torch.cat([batch.y.new_full((9, 1), task.tokenizer.pad_token_id), batch.y], 1)  # a mark in front is spelt out
    assert not task.score(marked, batch.y).any()
    after = torch.cat([batch.y.masked_fill(batch.y == IGNORED, 0), batch.y], 1)  # what is behind the end does not count
    assert task.score(after, batch.y).all()


def test_a_mark_that_begins_every_text_is_no_part_of_it() -> None:
    """As BART's tokenizer has one."""
    task = CPVRText(12)
    task.tokenizer.add_special_tokens({"bos_token": "<s>"})
    batch = task.batch("test", 0, 9)
    begun = torch.cat([batch.y.new_full((9, 1), task.tokenizer.bos_token_id), batch.y], 1)
    assert task.score(begun, batch.y).all()
    twice = torch.cat([begun[:, :1], begun], 1)
    assert not task.score(twice, batch.y).any()


def test_batches_of_training_hold_texts_of_like_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a token for each digit, lengths differ; sorted in windows, less is padding. All examples come, each once."""
    task = CPVRText(12, 120, train_examples=None)
    monkeypatch.setattr(task, "tokenizer", word_tokenizer(["#", *"0123456789"]), raising=False)
    monkeypatch.setattr(task, "_ids", lambda texts: [[5] * len(text) + [1] for text in texts])
    batches = [task.batch("train", i, 8) for i in range(16)]
    keys = torch.cat([batch.key for batch in batches])
    assert keys.sort().values.tolist() == list(range(16 * 8))
    spread = [int(b.mask.sum(1).max() - b.mask.sum(1).min()) if b.mask is not None else 0 for b in batches]
    lengths = torch.cat([(b.x != 0).sum(1) for b in batches])
    assert sum(spread) < 2 * int(lengths.max() - lengths.min())


def test_a_tokenizer_that_cannot_write_answers_is_refused() -> None:
    task = CPVRText(12)
    task.tokenizer = word_tokenizer([str(n) for n in range(13)])  # it has no #
    batch = task.batch("test", 0, 9)
    with pytest.raises(ValueError, match="cannot write numbers, spaces and #"):
        task.score(batch.y, batch.y)
