"""What the person at work must not see yet: the results of questions that they still have to judge.

The pages get runs, comparisons and live searches through `app.study`, which asks here. The rule is in `db.blindness`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b

from app import url, who
from app.components.marks import count, empty
from app.desk import desk
from app.markup import Html, join, link
from backend.core.study import Study
from db.errors import Refused

REASON = "you have still to judge them"
_WORDS = re.compile(r"\w+")


def hidden(study: Study) -> frozenset[str]:
    """The questions that are hidden from whoever is at work. Nothing is hidden from nobody: the local app before a name is given."""
    person = who.who(study.labels_path)
    return desk(study).queue.hidden(person.name) if person else frozenset()


def any_hidden(study: Study, questions: Iterable[str]) -> bool:
    """Whether one of these questions is hidden."""
    return not hidden(study).isdisjoint(questions)


def digest(questions: Iterable[str]) -> str:
    """Tells one set of hidden questions from another; "" for none."""
    ids = sorted(questions)
    return blake2b("\0".join(ids).encode(), digest_size=16).hexdigest() if ids else ""


def refuse_live(study: Study, question: str) -> None:
    """Raise Refused for a question of one's own that would show the ranks of a hidden one.

    Whoever may not see other people's labels can ask nothing as long as questions are hidden from them: other words for the same
    question would show the same ranks. For the rest, only the hidden questions themselves are refused.
    """
    waiting = hidden(study)
    if not waiting:
        return
    if not who.may(study.labels_path, "see others' labels"):
        raise Refused(
            f"questions of your own wait until you have judged yours: {count(len(waiting), 'question')} to go"
        )
    if _plain(question) in {_plain(each.text) for each in study.questions.some(sorted(waiting))}:
        raise Refused("you are judging this question now; its ranks are hidden until you have finished it")


def notice_of_hidden(questions: int) -> Html:
    """What a page shows in the place of something that would tell about hidden questions."""
    return empty(
        "Judge first",
        join(
            f"This shows ranks, scores or labels of {count(questions, 'question')} that you have still to judge. "
            "It opens when you have finished them on ",
            link("Judge", url.JUDGE),
            ".",
        ),
    )


def _plain(text: str) -> tuple[str, ...]:
    return tuple(_WORDS.findall(text.casefold()))
