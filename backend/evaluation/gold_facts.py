"""Facts about the gold passages of one question: the words they share with the question, their titles, and the position
of the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from blindspot.backend.evaluation.miss_facts import name_share
from blindspot.backend.evaluation.question_facts import content_words, count_words
from blindspot.backend.text.answers import answer_spans, nfd, spaced_tokens
from blindspot.db.records import Passage, Question


@dataclass(frozen=True, slots=True)
class GoldPassage:
    """A gold passage with its title and text as lower-case tokens, for searches of whole words."""

    passage: Passage
    title_tokens: str
    text_tokens: str

    @classmethod
    def from_passage(cls, passage: Passage) -> GoldPassage:
        return cls(passage, spaced_tokens(nfd(passage.title)), spaced_tokens(nfd(passage.text)))


@dataclass(frozen=True, slots=True)
class AnswerPlace:
    """The position of the first answer in a passage: the number of words before it, and of all words. in_title: whether
    the title contains an answer.
    """

    words_before: int
    words: int
    in_title: bool


def largest_overlap(question: Question, gold: Sequence[GoldPassage]) -> float | None:
    """Return the largest share of the question's content words that one passage (title or text) contains; None if the
    question has no content words.

    Words of the subject's name are not counted, because nearly every gold passage contains them.
    """
    words = [f" {word} " for word in content_words(question.text) - content_words(question.subject or "")]
    if not words or not gold:
        return None
    found = [sum(word in each.title_tokens or word in each.text_tokens for word in words) for each in gold]
    return max(found) / len(words)


def largest_name_share(question: Question, gold: Sequence[GoldPassage]) -> float | None:
    """Return the largest share of the words of the subject's name that one title contains; None if there is no subject
    or no passage.
    """
    if not question.subject or not gold:
        return None
    return max(name_share(question.subject, each.passage.title) for each in gold)


def answer_place(question: Question, gold: GoldPassage) -> AnswerPlace | None:
    """Return the position of an answer in a passage, matched token by token or by regular expression; None if it
    contains no answer.
    """
    if question.answer_rule == "regex":
        spans = answer_spans(gold.passage.text, question.answers, "regex")
        in_title = bool(answer_spans(gold.passage.title, question.answers, "regex"))
        before = count_words(gold.passage.text[: spans[0][0]]) if spans else None
    else:
        answers = [text for text in (spaced_tokens(nfd(answer)) for answer in question.answers) if not text.isspace()]
        in_title = any(answer in gold.title_tokens for answer in answers)
        at = min((place for answer in answers if (place := gold.text_tokens.find(answer)) >= 0), default=None)
        before = None if at is None else _count_words(gold.text_tokens[:at])
    if before is None and not in_title:
        return None
    return AnswerPlace(before or 0, _count_words(gold.text_tokens), in_title)


def _count_words(tokens: str) -> int:
    """Count the words among tokens, without punctuation."""
    return sum([token[0].isalnum() for token in tokens.split()])
