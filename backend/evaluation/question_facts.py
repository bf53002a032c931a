"""Facts about questions by which slices are defined: their words, their answers, and the overlap with their gold
passages.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from blindspot.backend.core.study import Study
from blindspot.backend.data.importing.gold import find_ordinals
from blindspot.backend.text.answers import STOP_WORDS, nfd, spaced_tokens, tokens
from blindspot.db.question_columns import NO_BUCKET, UNKNOWN_FREQUENCY
from blindspot.db.question_table import columns_of, fields_of, gold_of
from blindspot.db.records import AnswerRule, Question

QUESTION_WORDS = ("who", "whom", "whose", "what", "which", "where", "when", "why", "how")
OTHER = "other"


def question_word(text: str) -> str:
    """Return the first question word of a question in lower case; "other" if it has none."""
    return next((word for word in map(str.lower, tokens(text)) if word in QUESTION_WORDS), OTHER)


def content_words(text: str) -> set[str]:
    """Return the content words of a text in lower case, without stop words and punctuation."""
    words = set(spaced_tokens(nfd(text)).split()) - STOP_WORDS
    return {word for word in words if word.isalnum() or any(map(str.isalnum, word))}


def count_words(text: str) -> int:
    """Count the words and numbers in a text, ignoring punctuation."""
    return sum([token[0].isalnum() for token in tokens(text)])


def _shortest(answers: Sequence[str], answer_rule: AnswerRule) -> float:
    if answer_rule != "string":
        return np.nan
    return min((count_words(answer) for answer in answers), default=np.nan)


class QuestionFacts:
    """Arrays with one value for each question. Each array is computed when it is first used. Row i is question i."""

    def __init__(self, study: Study, questions: Sequence[Question]):
        self.study, self.questions = study, questions

    @cached_property
    def question_words(self) -> np.ndarray:
        """The `question_word` of each question, (q,) str."""
        return np.array([question_word(text) for (text,) in fields_of(self.questions, "text")], dtype=str)

    @cached_property
    def length(self) -> np.ndarray:
        """The number of words of each question, (q,) float64, without punctuation."""
        return np.array([count_words(text) for (text,) in fields_of(self.questions, "text")], dtype=np.float64)

    @cached_property
    def answer_length(self) -> np.ndarray:
        """The number of words of the shortest answer, (q,) float64; NaN if there are no answers or if they are regular
        expressions.
        """
        return np.array(
            [_shortest(*fields) for fields in fields_of(self.questions, "answers", "answer_rule")], np.float64
        )

    @cached_property
    def bucket(self) -> np.ndarray:
        """The official frequency bucket of each question, (q,) float64; NaN if it has none."""
        bucket = columns_of(self.questions).bucket
        return np.where(bucket == NO_BUCKET, np.nan, bucket.astype(np.float64))

    @cached_property
    def frequency(self) -> np.ndarray:
        """The number of passages that mention each question's subject, (q,) float64; NaN if unknown."""
        frequency = columns_of(self.questions).frequency
        return np.where(frequency == UNKNOWN_FREQUENCY, np.nan, frequency.astype(np.float64))

    @cached_property
    def overlap(self) -> np.ndarray:
        """The largest share of the question's content words that one gold passage (title or text) contains, (q,)
        float64; NaN if there is no gold passage.
        """
        return self._gold_fact[0]

    @cached_property
    def answer_in_title(self) -> np.ndarray:
        """Whether the title of a gold passage contains an answer, matched token by token, (q,) bool."""
        return self._gold_fact[1]

    @cached_property
    def _gold_fact(self) -> tuple[np.ndarray, np.ndarray]:
        known = find_ordinals(self.study.corpus, {id for ids in gold_of(self.questions) for id in ids})
        ordinals = sorted(set(known.values()))
        read = {}
        for ordinal, passage in zip(ordinals, self.study.corpus.passages(ordinals), strict=True):
            title = spaced_tokens(nfd(passage.title))
            read[ordinal] = title, title + spaced_tokens(nfd(passage.text))
        shares, titled = np.full(len(self.questions), np.nan), np.zeros(len(self.questions), dtype=bool)
        fields = fields_of(self.questions, "text", "gold", "answers", "answer_rule")
        for row, (question, gold_ids, answers, answer_rule) in enumerate(fields):
            gold = [read[known[id]] for id in gold_ids if id in known]
            words = [f" {word} " for word in content_words(question)]
            if gold and words:
                shares[row] = max([sum([word in text for word in words]) for _, text in gold]) / len(words)
            if gold and answer_rule == "string":
                spaced = [each for each in (spaced_tokens(nfd(answer)) for answer in answers) if not each.isspace()]
                titled[row] = any(answer in title for title, _ in gold for answer in spaced)
        return shares, titled
