"""Generated passages whose words follow Zipf's law, and questions about the passages of any psgs_w100 file.

The most frequent words are English: Lucene's stop words, then question words, as in real text. The others are made of
syllables. Five passages share an article, whose title is two of its six topic words; a seventh of the words are topics.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

STOP_WORDS = (
    "the of and in to a was is for as on by with at it be are an or this that such if then there these they their into no not "
    "but will"
).split()
QUESTION_WORDS = "which who when where what".split()
VOCABULARY = 500_000
EXPONENT, SHIFT = 1.05, 2.7  # Zipf and Mandelbrot: a word of rank r has the weight (r + SHIFT) ** -EXPONENT
WORDS, PASSAGES_PER_ARTICLE, TOPICS, TOPIC_SHARE = 100, 5, 6, 1 / 7
RAREST_TOPICS = 3_000  # topics are drawn evenly over the logarithm of the ranks beyond this one
BLOCK = 20_000


def vocabulary() -> np.ndarray:
    """Return the words by rank, (VOCABULARY,) of str."""
    syllables = [consonant + vowel for consonant in "bcdfghjklmnprstvwxyz" for vowel in "aeiou"]
    english = STOP_WORDS + QUESTION_WORDS
    made = []
    for number in range(VOCABULARY - len(english)):
        first, second, third = number % 100, number // 100 % 100, number // 10_000
        made.append(syllables[first] + syllables[second] + (syllables[third] + "n" if third else "n"))
    return np.array(english + made, object)


def write_passages(path: Path, passages: int, seed: int) -> None:
    """Write a psgs_w100 file: id, text, title."""
    rng, words = np.random.default_rng(seed), vocabulary()
    ends = np.cumsum((np.arange(VOCABULARY) + 1 + SHIFT) ** -EXPONENT)
    with open(path, "w", encoding="utf-8") as file:
        file.write("id\ttext\ttitle\n")
        for start in range(0, passages, BLOCK):
            rows = min(BLOCK, passages - start)
            drawn = np.searchsorted(ends, rng.random((rows, WORDS)) * ends[-1])
            articles = -(-rows // PASSAGES_PER_ARTICLE)
            logs = rng.uniform(np.log(RAREST_TOPICS), np.log(VOCABULARY), (articles, TOPICS))
            topics = np.exp(logs).astype(np.int64)[np.arange(rows) // PASSAGES_PER_ARTICLE]
            chosen = np.take_along_axis(topics, rng.integers(0, TOPICS, (rows, WORDS)), 1)
            drawn = np.where(rng.random((rows, WORDS)) < TOPIC_SHARE, chosen, np.minimum(drawn, VOCABULARY - 1))
            for row, (text, title) in enumerate(zip(words[drawn], words[topics[:, :2]], strict=True), start + 1):
                file.write(f"{row}\t{' '.join(text)}\t{' '.join(title)}\n")


def questions_of(path: Path, questions: int, seed: int) -> list[str]:
    """Return questions about passages that are drawn from a psgs_w100 file: a question word, the title, three words."""
    rng = np.random.default_rng(seed)
    with open(path, encoding="utf-8", newline="") as file:
        total = sum(1 for _ in _rows(file))
    wanted = set(rng.choice(total, min(questions, total), replace=False).tolist())
    made = []
    with open(path, encoding="utf-8", newline="") as file:
        for number, row in enumerate(_rows(file)):
            if number in wanted:
                words = rng.choice(row["text"].split() or [""], 3)
                made.append(f"{rng.choice(QUESTION_WORDS)} was {row['title']} {' '.join(words)}?")
    return made


def _rows(file) -> Iterator[dict[str, str]]:
    return csv.DictReader(file, delimiter="\t")
