"""Refuse live searches that would show a person the ranks of a question that they still have to judge.

`blindspot.db.blindness` determines these questions.
"""

from __future__ import annotations

import re
from collections.abc import Set

from blindspot.backend.core.study import Study
from blindspot.backend.text.number_words import quantity
from blindspot.db.errors import Refused

_WORDS = re.compile(r"\w+")


def refuse_live(study: Study, question: str, hidden_questions: Set[str], sees_others_labels: bool) -> None:
    """Raise Refused if searching a typed question would show the ranks of a hidden question.

    Args:
        hidden_questions: ids of the questions that are hidden from the person.
        sees_others_labels: whether the person may see others' labels. A person who may not cannot ask anything while
            questions are hidden from them, because a reworded question would show the same ranks. For everybody else,
            only the hidden questions themselves are refused.
    """
    if not hidden_questions:
        return
    if not sees_others_labels:
        raise Refused(
            "you can ask your own questions once you have judged those assigned to you: "
            f"{quantity(len(hidden_questions), 'question')} remaining"
        )
    if _normalised_words(question) in {
        _normalised_words(each.text) for each in study.questions.with_ids(sorted(hidden_questions))
    }:
        raise Refused("you are judging this question; its ranks are hidden until you finish it")


def _normalised_words(text: str) -> tuple[str, ...]:
    return tuple(_WORDS.findall(text.casefold()))
