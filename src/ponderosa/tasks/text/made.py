"""Texts that nobody wrote, for a teacher to label: what it answers to them tells more than the few texts that there are."""

import random

SHARE = 0.25
"""Of the words are exchanged."""


def exchanged(texts: list[str], count: int, seed: int = 0) -> list[str]:
    """So many of the texts, each in turn, with some of their words exchanged for words of any of them, the frequent ones more
    often.

    >>> exchanged(["how far is the moon", "who painted it"], 3, seed=2)
    ['how far far the moon', 'who how it', 'painted far is the moon']
    """
    draw, words = random.Random(seed), [word for text in texts for word in text.split()]
    return [
        " ".join(draw.choice(words) if draw.random() < SHARE else word for word in texts[i % len(texts)].split())
        for i in range(count)
    ]
