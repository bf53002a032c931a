"""The caller of the service or of the agents' server: what they may do, and which questions are hidden from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from blindspot.backend.core.require_right import require
from blindspot.backend.core.study import Study
from blindspot.db.errors import Forbidden, Refused
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.queue import Queue
from blindspot.db.rights import ACTIONS

Kind = Literal["keeper", "local", "client", "person"]
OF_A_CLIENT = ("see results", "ask live")
"""What a client with the service's token may do. It says nothing about a person."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request.

    Attributes:
        kind: "keeper": whoever keeps the study's files, as on the command line, who may do everything. "local":
            somebody on this machine who has not said who they are; they may do what the local app allows then.
            "client": somebody with the token of the service, who may read and search. "person": one of the study's
            people, with the rights of their role.
        name: The person's name; None for the others.
    """

    kind: Kind
    name: str | None = None

    def require(self, study: Study, action: str) -> None:
        """Raise Forbidden if the caller lacks the right to an action of `blindspot.db.rights.ACTIONS`."""
        if self.kind == "person":
            require(study, self.name, action)
        elif self.kind == "local" and not ACTIONS[action].unnamed:
            raise Forbidden(
                f"say who you are, to {ACTIONS[action].description}: send the header 'Blindspot-Person: NAME'"
            )
        elif self.kind == "client" and action not in OF_A_CLIENT:
            raise Forbidden(
                f"the token of the service does not let you {ACTIONS[action].description}; send a person's token instead"
            )

    def is_allowed(self, study: Study, action: str) -> bool:
        """Return whether the caller has the right to an action."""
        try:
            self.require(study, action)
        except Forbidden:
            return False
        return True

    def person_with_right(self, study: Study, action: str) -> str:
        """Return the name of the calling person. Raises Forbidden if the caller is not a person, or lacks the right to
        the action.
        """
        self.require(study, action)
        if self.name is None:
            raise Forbidden(f"a person must be named, to {ACTIONS[action].description}")
        return self.name

    def hidden_questions(self, study: Study) -> frozenset[str]:
        """Return the questions whose results the caller must not see yet, because they still have to judge them."""
        return frozenset() if self.name is None else Queue(study.labels_path).hidden_questions(self.name)

    def require_live(self, study: Study, questions: Sequence[str]) -> None:
        """Raise Forbidden if the caller may not search with their own questions, and Refused for a question that would
        show hidden ranks.
        """
        from blindspot.backend.judging.live_refusal import refuse_live

        self.require(study, "ask live")
        hidden, sees_others = self.hidden_questions(study), self.is_allowed(study, "see others' labels")
        for question in questions:
            refuse_live(study, question, hidden, sees_others)

    def may_use_labels(self, study: Study) -> bool:
        """Return whether causes of misses may be computed with people's labels. False for an annotator who still has
        questions to judge.
        """
        return not self.hidden_questions(study) or self.is_allowed(study, "see others' labels")

    def refuse_hidden(self, study: Study, question: str) -> None:
        """Raise Refused if the results of a question are hidden from the caller."""
        if question in self.hidden_questions(study):
            raise Refused(f"{self.name} has still to judge question {question!r}; its results are hidden until then")


KEEPER = Caller("keeper")
LOCAL = Caller("local")
CLIENT = Caller("client")


def person_of_secret(study: Study, secret: str) -> Caller | None:
    """Return the person whose personal link contains this secret, or whose session has this token; None if there is no
    such person.
    """
    people = People(study.labels_path)
    person = people.person_of_link(secret) or people.person_of_session(secret)
    return None if person is None else Caller("person", person.name)


def person_of_name(study: Study, name: str) -> Caller:
    """Return a person by name. Raises Missing for an unknown person, and Forbidden for a machine annotator."""
    person = People(study.labels_path).get(name)
    if person.kind == "machine":
        raise Forbidden(f"{name} is a machine; nobody acts in its name")
    return Caller("person", person.name)


def label_store(study: Study) -> Labels:
    """Return the label store of a study. For labels outside batches, it checks that the passages exist."""
    return Labels(study.labels_path, passages=study.corpus.ordinals if study.has_corpus else None)
