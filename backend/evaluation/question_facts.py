"""What slices ask about questions: their words, their answers, and what their gold passages share with them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from backend.data.importing.gold import find_ordinals
from backend.text.answers import STOP_WORDS, joined, nfd, tokens
from db.records import Question

if TYPE_CHECKING:
    from backend.core.study import Study

QUESTION_WORDS = ("who", "whom", "whose", "what", "which", "where", "when", "why", "how")
OTHER = "other"


def question_word(text: str) -> str:
    """The first question word of a question, lower-cased; "other" where there is none."""
    return next((word for word in map(str.lower, tokens(text)) if word in QUESTION_WORDS), OTHER)


def content_words(text: str) -> set[str]:
    """The words of a text that carry content: no stop words, no punctuation, lower-cased."""
    words = set(joined(nfd(text)).split()) - STOP_WORDS
    return {word for word in words if word.isalnum() or any(map(str.isalnum, word))}


def count_words(text: str) -> int:
    """Words and numbers of a text; punctuation does not count."""
    return sum([token[0].isalnum() for token in tokens(text)])


def _shortest(question: Question) -> float:
    if question.answer_rule != "string":
        return np.nan
    return min((count_words(answer) for answer in question.answers), default=np.nan)


class QuestionFacts:
    """Arrays over questions, each made when it is first asked for. Row i is question i."""

    def __init__(self, study: Study, questions: Sequence[Question]):
        self.study, self.questions = study, questions

    @cached_property
    def word(self) -> np.ndarray:
        """(q,) str: `question_word`."""
        return np.array([question_word(question.text) for question in self.questions], dtype=str)

    @cached_property
    def length(self) -> np.ndarray:
        """(q,) float64: words of the question, punctuation not counted."""
        return np.array([count_words(question.text) for question in self.questions], dtype=np.float64)

    @cached_property
    def answer_length(self) -> np.ndarray:
        """(q,) float64: words of the shortest answer; NaN where there is none, or where answers are patterns."""
        return np.array([_shortest(question) for question in self.questions], dtype=np.float64)

    @cached_property
    def bucket(self) -> np.ndarray:
        """(q,) float64: the official bucket; NaN where there is none."""
        return np.array([np.nan if q.bucket is None else q.bucket for q in self.questions], dtype=np.float64)

    @cached_property
    def frequency(self) -> np.ndarray:
        """(q,) float64: mentions of the subject; NaN where unknown."""
        return np.array([np.nan if q.frequency is None else q.frequency for q in self.questions], dtype=np.float64)

    @cached_property
    def overlap(self) -> np.ndarray:
        """(q,) float64: the largest share of the question's content words that one gold passage holds (title or text); NaN without."""
        return self._of_gold[0]

    @cached_property
    def answer_in_title(self) -> np.ndarray:
        """(q,) bool: a gold passage's title holds an answer, token by token."""
        return self._of_gold[1]

    @cached_property
    def _of_gold(self) -> tuple[np.ndarray, np.ndarray]:
        known = find_ordinals(self.study.corpus, {id for question in self.questions for id in question.gold})
        ordinals = sorted(set(known.values()))
        read = {}
        for ordinal, passage in zip(ordinals, self.study.corpus.passages(ordinals), strict=True):
            title = joined(nfd(passage.title))
            read[ordinal] = title, title + joined(nfd(passage.text))
        shares, titled = np.full(len(self.questions), np.nan), np.zeros(len(self.questions), dtype=bool)
        for row, question in enumerate(self.questions):
            gold = [read[known[id]] for id in question.gold if id in known]
            words = [f" {word} " for word in content_words(question.text)]
            if gold and words:
                shares[row] = max([sum([word in text for word in words]) for _, text in gold]) / len(words)
            if question.answer_rule == "string":
                answers = [
                    answer for answer in (joined(nfd(answer)) for answer in question.answers) if not answer.isspace()
                ]
                titled[row] = any(answer in title for title, _ in gold for answer in answers)
        return shares, titled
