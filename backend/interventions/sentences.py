"""Split a passage into sentences, and find the sentence that states the answer."""

from __future__ import annotations

import re
from collections.abc import Iterable

from blindspot.backend.evaluation.question_facts import content_words
from blindspot.backend.text.answers import has_answer, nfd, spaced_tokens

_END = re.compile(r"""(?:(?<=[.!?])|(?<=[.!?]["')\]]))\s+(?=["'(\[]*[A-Z0-9])""")
_ABBREVIATION = re.compile(r"(?:\b[A-Z]|\b(?:Dr|Mr|Mrs|Ms|St|Jr|Sr|No|vs|ca|c|Prof|Gen|Col|Capt|Rev|Hon|Mt|Ft))\.$")

_LAST = re.compile(r"""[.!?…]["'”’)\]]*\s*$""")


def sentences(text: str) -> list[str]:
    """Split a text after ".", "!" or "?" if a capital letter or a digit follows, but not after an initial or a short
    title such as "Dr.".
    """
    parts: list[str] = []
    for part in _END.split(text.strip()):
        if parts and _ABBREVIATION.search(parts[-1]):
            parts[-1] += f" {part}"
        elif part:
            parts.append(part)
    return parts


def is_complete(sentence: str) -> bool:
    """Return whether a sentence is complete, that is, ends with a full stop or similar punctuation."""
    return bool(_LAST.search(sentence))


def answer_sentence(sentence_texts: Iterable[str], question: str, answers: Iterable[str], rule: str) -> int | None:
    """Return the index of the sentence that contains an answer and shares the most content words with the question.
    Ties go to the first such sentence; None if no sentence contains an answer.
    """
    answers, words = list(answers), content_words(question)
    best, best_shared = None, -1
    for index, sentence in enumerate(sentence_texts):
        if has_answer(sentence, answers, rule):
            shared = sum(contains_words(sentence, word) for word in words)
            if shared > best_shared:
                best, best_shared = index, shared
    return best


def contains_words(text: str, searched_words: str) -> bool:
    """Return whether a text contains these words consecutively, compared token by token and ignoring case."""
    phrase = spaced_tokens(nfd(searched_words))
    return not phrase.isspace() and phrase in spaced_tokens(nfd(text))
