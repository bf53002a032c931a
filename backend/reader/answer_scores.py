"""Score predicted answers: exact match and F1 after SQuAD's normalisation (Rajpurkar et al. 2016).

Normalisation lowers case, removes ASCII punctuation and the words a, an, the, and joins words by single spaces. For a
question with several answers, the maximum over the answers is used. If answers are regular expressions (CuratedTREC), a
prediction is correct if one of them matches at its beginning, as in DrQA's evaluation; F1 is then the same as exact
match.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence

from blindspot.backend.text.answers import answer_spans

ARTICLES = re.compile(r"\b(?:a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise_answer(answer: str) -> str:
    """Return the normalised form of an answer, for comparison."""
    return " ".join(ARTICLES.sub(" ", answer.lower().translate(PUNCTUATION)).split())


def exact_match(prediction: str, answers: Iterable[str]) -> bool:
    """Return whether the normalised prediction equals one of the normalised answers."""
    predicted = normalise_answer(prediction)
    return any(normalise_answer(answer) == predicted for answer in answers)


def f1(prediction: str, answers: Iterable[str]) -> float:
    """Return the largest harmonic mean of precision and recall over the words shared by the prediction and an answer,
    from 0 to 1.

    If both texts are empty after normalisation, the result is 1.
    """
    return max(
        (_f1(normalise_answer(prediction).split(), normalise_answer(answer).split()) for answer in answers), default=0.0
    )


def _f1(predicted_words: Sequence[str], answer_words: Sequence[str]) -> float:
    if not predicted_words or not answer_words:
        return float(predicted_words == answer_words)
    shared = sum((Counter(predicted_words) & Counter(answer_words)).values())
    return 2 * shared / (len(predicted_words) + len(answer_words))


def score_prediction(prediction: str | None, answers: Sequence[str], patterns: bool = False) -> tuple[bool, float]:
    """Return (exact match, F1) of a prediction. A prediction of None is wrong. `patterns`: the answers are regular
    expressions.
    """
    if prediction is None:
        return False, 0.0
    if patterns:
        right = any(begin == 0 for begin, _ in answer_spans(prediction, answers, "regex"))
        return right, float(right)
    return exact_match(prediction, answers), f1(prediction, answers)
