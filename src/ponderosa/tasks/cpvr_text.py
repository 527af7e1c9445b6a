"""Conditional pointer-value retrieval as text (Abnar et al., 2023, section 4.2): numbers in, a label out, with or without the
way to it."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ponderosa.tasks.base import Batch, Split, Task, generator
from ponderosa.tasks.cpvr import CPVR
from ponderosa.tasks.cpvr_answers import KINDS, KINDS_WITHOUT, Answer, Verdict, judge, parse
from ponderosa.tasks.text.task import padded

IGNORED = -100
"""What stands behind the end of a target, as losses of `transformers` have it."""
WINDOW = 16
"""Batches of training whose examples are sorted together, so that those of one batch are about equally long."""


class Texts(NamedTuple):
    """Examples as strings, the number that names each, and its hops."""

    questions: list[str]
    answers: list[str]
    key: Tensor
    hops: Tensor


class CPVRText(Task):
    """`CPVR` as text to text. The question is the sequence; the answer is `LABEL`, or with a scratch-pad
    `LABEL # NUMBER ... LABEL`: the numbers at which the chain stops, the label at the end instead of the last of them (under
    "modulus" the two differ).

    Args:
        length: of the sequence.
        values: the largest number under "modulus"; None for the plain task.
        scratch_pad: whether answers show the way.
        train_hops: the most hops in training and validation.
        test_hops: the most hops in the test.
        train_examples: in the training set, whose batches then come again, in whole windows of 16 batches; None for ever new
            ones.
        tokenizer: the folder or name of a pretrained one; one made for the task, a token for every number, if not given.

    >>> task = CPVRText(length=12)
    >>> texts = task.texts("test", 0, 9)
    >>> texts.questions[2], texts.answers[2]
    ('3 3 9 6 8 9 8 3 12 7 11 2', '2 # 3 9 12 2')
    """

    criterion = staticmethod(F.cross_entropy)

    def __init__(
        self, length: int = 30, values: int | None = None, scratch_pad: bool = True, train_hops: int = 4, test_hops: int = 9,
        train_examples: int | None = 100_000, tokenizer: str | None = None,
    ):  # fmt: skip
        self.numbers = CPVR(length, values, train_hops, test_hops, train_examples)
        self.length, self.scratch_pad, self.pretrained = length, scratch_pad, tokenizer
        self.kinds = KINDS if scratch_pad else KINDS_WITHOUT
        self._window = lru_cache(maxsize=1)(self._encode_window)

    @property
    def input_size(self) -> int:  # type: ignore[override]
        raise ValueError("the answers of CPVRText are texts: `ponderosa finetune` trains encoder-decoders to write them")

    @cached_property
    def tokenizer(self) -> Any:
        if self.pretrained is None:
            return word_tokenizer(["#", *map(str, range(self.numbers.largest + 1))])
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(self.pretrained)

    @cached_property
    def separator(self) -> int:
        """The token that ends the label."""
        return self._ids(["#"])[0][-2]  # the last is the end mark

    @cached_property
    def question_tokens(self) -> int:
        """The most that a question takes."""
        return len(self._ids([" ".join([self._widest] * self.length)])[0])

    @cached_property
    def _widest(self) -> str:
        """The number of most tokens: a large one may be one token, others not."""
        numbers = [str(number) for number in range(self.numbers.largest + 1)]
        return max(zip(map(len, self._ids(numbers)), numbers, strict=True))[1]

    @cached_property
    def longest(self) -> int:
        """Tokens that an answer may take before it counts as endless: enough for twice the hops of the test."""
        stops = 2 * self.numbers.test_hops if self.scratch_pad else 1
        return len(self._ids([" ".join([self._widest] * stops + ["#"])])[0])

    def texts(self, split: Split, index: int, size: int, seed: int = 0) -> Texts:
        """Batch number `index` of `size` examples as strings."""
        batch = self.numbers.batch(split, index, size, seed)
        questions = [" ".join(map(str, row)) for row in batch.x.tolist()]
        return Texts(questions, self.answers(batch.x), batch.key, batch.difficulty)

    def answers(self, x: Tensor) -> list[str]:
        """The true answers to sequences `[batch, length]`, as text."""
        stops, labels = self.numbers.stops(x), self.numbers.solve(x).tolist()
        if not self.scratch_pad:
            return [str(label) for label in labels]
        hops = (stops.diff(dim=1) > 0).sum(1).tolist()
        rows = zip(labels, hops, x.gather(1, stops - 1).tolist(), strict=True)
        return [f"{label} # {' '.join(map(str, [*row[:count], label]))}" for label, count, row in rows]

    def batch(self, split: Split, index: int, size: int, seed: int = 0) -> Batch:
        """Token ids of the questions, and of the answers as targets `[size, token]`, `IGNORED` behind their end."""
        if split != "train":
            texts = self.texts(split, index, size, seed)
            rows, encoded = torch.arange(size), (self._ids(texts.questions), self._ids(texts.answers), texts)
        else:
            window, place = divmod(index, WINDOW)
            encoded = self._window(window, size, seed)
            by_length = torch.tensor([len(ids) for ids in encoded[0]]).argsort(stable=True)
            place = int(torch.randperm(WINDOW, generator=generator(split, window, seed))[place])
            rows = by_length[place * size : (place + 1) * size]
        questions, answers, texts = encoded
        x, mask = padded([questions[i] for i in rows.tolist()], self.tokenizer.pad_token_id)
        y, _ = padded([answers[i] for i in rows.tolist()], IGNORED)
        return Batch(x, y, texts.key[rows], texts.hops[rows], None if mask.all() else mask)

    def _encode_window(self, window: int, size: int, seed: int) -> tuple[list[list[int]], list[list[int]], Texts]:
        texts = self.texts("train", window, WINDOW * size, seed)
        return self._ids(texts.questions), self._ids(texts.answers), texts

    def _ids(self, texts: list[str]) -> list[list[int]]:
        return self.tokenizer(texts)["input_ids"]

    def written(self, ids: Tensor) -> list[str]:
        """What tokens `[batch, token]` say up to the end mark; without one, dots show it. A mark that begins every text is left
        out, others are spelt out."""
        end, begin, texts = self.tokenizer.eos_token_id, self.tokenizer.bos_token_id, []
        for row in ids.tolist():
            row = row[1:] if begin is not None and row[:1] == [begin] else row
            ended = end in row
            text = self.tokenizer.decode(row[: row.index(end)] if ended else [i for i in row if i != IGNORED])
            texts.append(text if ended else f"{text} ...")
        return texts

    def judge(self, ids: Tensor, target: Tensor) -> list[Verdict]:
        """What the answers are that were written as tokens `[batch, token]`."""
        return [judge(text, self.truth(true)) for text, true in zip(self.written(ids), self.written(target), strict=True)]

    def check_tokenizer(self) -> None:
        """Refuse a tokenizer that loses something of an answer, before any work is done."""
        for ids in self._ids(self.texts("test", 0, 8).answers):
            self.truth(self.written(torch.tensor([ids]))[0])

    def truth(self, text: str) -> Answer:
        answer = parse(text, self.scratch_pad)
        if answer is None:
            raise ValueError(f"the target reads {text!r} once it is decoded: this tokenizer cannot write numbers, spaces and #")
        return answer

    def score(self, output: Tensor, target: Tensor) -> Tensor:
        """1 where the tokens `[batch, token]` end a well-formed answer with the right number, else 0."""
        return torch.tensor([float(verdict.last) for verdict in self.judge(output, target)])


def word_tokenizer(words: list[str]) -> Any:
    """A tokenizer that knows just these words, in which `</s>` ends a text."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    pad, end, unknown = "<pad>", "</s>", "<unk>"
    numbers = {word: i for i, word in enumerate((pad, end, unknown, *words))}
    made = Tokenizer(models.WordLevel(numbers, unk_token=unknown))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.TemplateProcessing(single=f"$A {end}", special_tokens=[(end, numbers[end])])
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token=pad, eos_token=end, unk_token=unknown)
