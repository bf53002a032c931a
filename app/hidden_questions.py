"""Hiding the results of questions that the signed-in person still has to judge.

The pages get runs, comparisons and live searches through `blindspot.app.study`, which applies the functions of this
module. `blindspot.db.blindness` decides which questions are hidden.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from blindspot.app import url, who
from blindspot.app.components.marks import empty
from blindspot.app.judging_stores import judging_stores
from blindspot.app.markup import Html, join, link
from blindspot.backend.core.study import Study
from blindspot.backend.judging import live_refusal
from blindspot.backend.text.number_words import quantity

REASON = "you have still to judge them"


def hidden_ids(study: Study) -> frozenset[str]:
    """Return the questions hidden from the signed-in person; none before sign-in in the local app."""
    person = who.signed_in_person(study.labels_path)
    return judging_stores(study).queue.hidden_questions(person.name) if person else frozenset()


def any_hidden(study: Study, questions: Iterable[str]) -> bool:
    """Return whether one of these questions is hidden."""
    return not hidden_ids(study).isdisjoint(questions)


def may_use_labels(study: Study) -> bool:
    """Return whether causes of misses may use people's labels and judges' scores.

    People who judge blind must not learn other people's opinions. An annotator with open questions therefore sees
    causes computed without labels and scores.
    """
    return not hidden_ids(study) or who.may(study.labels_path, "see others' labels")


def digest(questions: Iterable[str]) -> str:
    """Return a digest that identifies a set of hidden questions; "" for none."""
    ids = sorted(questions)
    return blake2b("\0".join(ids).encode(), digest_size=16).hexdigest() if ids else ""


def refuse_live(study: Study, question: str) -> None:
    """Raise Refused for a typed question that would show the signed-in person the ranks of a hidden question."""
    live_refusal.refuse_live(study, question, hidden_ids(study), who.may(study.labels_path, "see others' labels"))


def notice_of_hidden(questions: int) -> Html:
    """The empty state shown instead of the results of hidden questions."""
    return empty(
        "Judge first",
        join(
            f"This page shows ranks, scores or labels of {quantity(questions, 'question')} that you still have to "
            "judge. To open the page, finish them on ",
            link("Judge", url.JUDGE),
            ".",
        ),
    )
