"""Answers to pointer-value retrieval as text: a strict grammar, and the kinds of errors (Abnar et al., 2023, appendix B).

`LABEL`, or with a scratch-pad `LABEL # NUMBER NUMBER ... LABEL`: the numbers at which the chain stops, the label at the end.
"""

import re
from typing import NamedTuple

RIGHT, WRONG, MALFORMED = "right", "label wrong", "malformed"
KINDS = (
    RIGHT, "pad exact, label wrong", "label right, pad inexact", "both wrong, consistent", "both wrong, inconsistent",
    MALFORMED,
)  # fmt: skip
"""What an answer with a scratch-pad can be; it is exactly one of them. Wrong and consistent: the pad ends with the label."""
KINDS_WITHOUT = (RIGHT, WRONG, MALFORMED)
"""What an answer without a scratch-pad can be."""

NUMBER = "(?:0|[1-9][0-9]*)"
GRAMMAR = {False: re.compile(f"({NUMBER})"), True: re.compile(f"({NUMBER}) # ({NUMBER}(?: {NUMBER})*)")}


class Answer(NamedTuple):
    """Numbers as they are written: a text may hold some that no machine would count to."""

    label: str
    pad: tuple[str, ...] = ()

    @property
    def last(self) -> str:
        """What the pad ends with; without one, the label."""
        return self.pad[-1] if self.pad else self.label


class Verdict(NamedTuple):
    """What an answer is, and whether its label and its pad's last number are right."""

    kind: str
    label: bool
    last: bool


def parse(text: str, scratch_pad: bool) -> Answer | None:
    """The answer that a text is, to the letter; None for any other text.

    >>> parse("7 # 3 12 7", scratch_pad=True)
    Answer(label='7', pad=('3', '12', '7'))
    >>> [parse(text, scratch_pad=True) for text in ("7", "7 #", "7 # 3  12 7", "07 # 7", "7 # 7 # 7", "7 # 3 12 7 ")]
    [None, None, None, None, None, None]
    """
    found = GRAMMAR[scratch_pad].fullmatch(text)
    if found is None:
        return None
    return Answer(found[1], tuple(found[2].split(" "))) if scratch_pad else Answer(found[1])


def judge(text: str, truth: Answer) -> Verdict:
    """What a text is as an answer, given the true one. A malformed text is right in nothing.

    >>> judge("7 # 3 12 7", Answer("9", ("3", "12", "9"))).kind
    'both wrong, consistent'
    """
    said = parse(text, scratch_pad=bool(truth.pad))
    if said is None:
        return Verdict(MALFORMED, False, False)
    return Verdict(_kind(said, truth), said.label == truth.label, said.last == truth.last)


def _kind(said: Answer, truth: Answer) -> str:
    if said == truth:
        return RIGHT
    if not truth.pad:
        return WRONG
    if said.pad == truth.pad:
        return "pad exact, label wrong"
    if said.label == truth.label:
        return "label right, pad inexact"
    return "both wrong, consistent" if said.label == said.last else "both wrong, inconsistent"
