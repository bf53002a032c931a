"""Tags: words that people give to questions, such as "wrong gold" or "negation". Tag events are only ever added; the
current tags follow from the events in order.
"""

from __future__ import annotations

import sqlite3
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from blindspot.db.connection import PerThread, insert, store_transaction
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.names import MAX_NAME, name_problem, text_problem
from blindspot.db.people import person, require

RESERVED = frozenset(
    "only_a only_b both both_fail bm25_only dense_only gold_below_unlabelled answer_in_unlabelled".split()
)
"""Names of the tags that slices compute from runs."""


@dataclass(frozen=True, slots=True)
class QuestionTag:
    """A current tag.

    Attributes:
        run: the run that the tag is about; None for the question itself.
        author: the person; None for the command line.
        time: seconds since 1970 of the last event that set or removed the tag.
    """

    tag: str
    question: str
    run: str | None
    author: str | None
    time: float


@dataclass(frozen=True, slots=True)
class TagCount:
    """How many questions have a tag, and how many people gave it."""

    tag: str
    questions: int
    people: int


_Key = tuple[str, str, str | None, str | None]
_State = dict[_Key, float]
_EVENTS = "SELECT kind, tag, question, run, author, new_tag, server_time FROM tag_event ORDER BY number"


def count_tags(tags: Iterable[QuestionTag]) -> list[TagCount]:
    """Return every tag with its counts, the most frequent first; see `Tags.counts`."""
    questions: dict[str, set[str]] = {}
    people: dict[str, set[str | None]] = {}
    for each in tags:
        questions.setdefault(each.tag, set()).add(each.question)
        people.setdefault(each.tag, set()).add(each.author)
    counted = [TagCount(tag, len(asked), len(people[tag])) for tag, asked in questions.items()]
    return sorted(counted, key=lambda each: (-each.questions, each.tag.casefold(), each.tag))


class Tags(PerThread):
    """The tags of one labels.db. Threads may share it.

    `by` names the person who acts. None is the person who has the study's files (the command line), who may do
    everything.
    """

    @property
    def last_event(self) -> int:
        """The number of the newest event; 0 if there is none."""
        return int(self.connection.execute("SELECT coalesce(max(number), 0) FROM tag_event").fetchone()[0])

    def all_tags(self) -> list[QuestionTag]:
        """Return the current tags by tag, question, run and person."""
        state = _current_tags(self.connection)
        return [QuestionTag(*key, state[key]) for key in sorted(state, key=_sort_key)]

    def counts(self) -> list[TagCount]:
        """Return every tag with its counts, the most frequent first."""
        return count_tags(self.all_tags())

    def questions(self, tag: str, run: str | None = None) -> set[str]:
        """Return the ids of the questions with a tag, ignoring upper and lower case.

        Args:
            run: only the tags about this run or about the question itself.

        Raises:
            Missing: No question has the tag.
        """
        state = _current_tags(self.connection)
        name = _required_spelling(state, tag)
        return {key[1] for key in state if key[0] == name and (run is None or key[2] in (None, run))}

    def add(self, tag: str, questions: Iterable[str], run: str | None = None, actor: str | None = None) -> str:
        """Tag questions, and return the tag in the spelling that was stored. A question that already has the tag stays
        unchanged.

        Raises:
            BadInput: The tag is not a word, or its name is one of `RESERVED`.
            Missing: A question or the person does not exist.
            Refused: The person may not tag.
        """
        name, asked = check_tag(tag), list(dict.fromkeys(questions))
        if run is not None and (problem := text_problem(run, MAX_NAME)):
            raise BadInput(f"the run's name {problem}")
        with store_transaction(self) as connection:
            require(connection, actor, "tag questions")
            _check_questions(connection, asked)
            state = _current_tags(connection)
            name = _existing_spelling(state, name) or name
            for question in asked:
                if (name, question, run, actor) not in state:
                    self._write_event(connection, "add", name, actor, question=question, run=run, author=actor)
        return name

    def remove(
        self, tag: str, question: str, run: str | None = None, actor: str | None = None, own_only: bool = False
    ) -> int:
        """Remove a tag from a question, and return how many people's tags were removed.

        People remove their own tags. People who may manage tags remove everybody's, unless `own_only` is set.

        Raises:
            Missing: The question does not have the tag, or not from this person.
            Refused: The person may not tag.
        """
        with store_transaction(self) as connection:
            require(connection, actor, "tag questions")
            whole = not own_only and (actor is None or person(connection, actor).is_allowed("manage tags"))
            state = _current_tags(connection)
            name = _required_spelling(state, tag)
            gone = [key for key in state if key[:3] == (name, question, run) and (whole or key[3] == actor)]
            if not gone:
                raise Missing(f"question {question!r} has no tag {name!r}{'' if whole else ' of yours'}")
            for _, _, _, author in gone:
                self._write_event(connection, "remove", name, actor, question=question, run=run, author=author)
        return len(gone)

    def rename(self, old_name: str, new_name: str, actor: str | None = None) -> None:
        """Rename a tag on every question.

        Raises:
            BadInput: The new name is not a word. Missing: No question has the tag.
            Refused: Another tag has the new name (`merge` joins the two), or the person may not manage tags.
        """
        name = check_tag(new_name)
        with store_transaction(self) as connection:
            require(connection, actor, "manage tags")
            state = _current_tags(connection)
            before = _required_spelling(state, old_name)
            there = _existing_spelling(state, name)
            if there is not None and there.casefold() != before.casefold():
                raise Refused(f"a tag {there!r} exists already; merge {before!r} into it instead")
            if before != name:
                self._write_event(connection, "rename", before, actor, new_tag=name)

    def merge(self, tags: Iterable[str], new_tag: str, actor: str | None = None) -> int:
        """Replace several tags by one tag, new or existing, and return how many tags were replaced.

        Raises:
            BadInput: The name is not a word. Missing: No question has one of the tags.
            Refused: The person may not manage tags.
        """
        name = check_tag(new_tag)
        with store_transaction(self) as connection:
            require(connection, actor, "manage tags")
            state = _current_tags(connection)
            name = _existing_spelling(state, name) or name
            merged = [tag for tag in dict.fromkeys(_required_spelling(state, tag) for tag in tags) if tag != name]
            for tag in merged:
                self._write_event(connection, "rename", tag, actor, new_tag=name)
        return len(merged)

    def delete(self, tag: str, actor: str | None = None) -> int:
        """Remove a tag from every question, and return the number of these questions.

        Raises:
            Missing: No question has the tag. Refused: The person may not manage tags.
        """
        with store_transaction(self) as connection:
            require(connection, actor, "manage tags")
            state = _current_tags(connection)
            name = _required_spelling(state, tag)
            self._write_event(connection, "delete", name, actor)
        return len({key[1] for key in state if key[0] == name})

    def _write_event(
        self, connection: sqlite3.Connection, kind: str, tag: str, actor: str | None, **more: str | None
    ) -> None:
        insert(connection, "tag_event", kind=kind, tag=tag, annotator=actor, server_time=self._clock(), **more)


def check_tag(tag: str) -> str:
    """Return a tag with single spaces between its words. Raises BadInput for a text that cannot be a tag."""
    name = " ".join(unicodedata.normalize("NFC", tag).split()) if isinstance(tag, str) else tag
    if problem := name_problem(name) or ("contains a comma" if "," in name else None):
        raise BadInput(f"the tag {str(tag)[:80]!r} {problem}; a tag is 1 to {MAX_NAME} characters without commas")
    if name.casefold() in RESERVED:
        raise BadInput(f"the tag {name!r} is one that slices compute from runs; take another word")
    return name


def _current_tags(connection: sqlite3.Connection) -> _State:
    """Return the tags after all events: (tag, question, run, author) to time."""
    state: _State = {}
    for kind, tag, question, run, author, new_tag, when in connection.execute(_EVENTS):
        if kind == "add":
            state[tag, question, run, author] = when
        elif kind == "remove":
            state.pop((tag, question, run, author), None)
        else:
            for key in [key for key in state if key[0] == tag]:
                del state[key]
                if kind == "rename":
                    state[(new_tag, *key[1:])] = when
    return state


def _existing_spelling(state: _State, tag: str) -> str | None:
    """Return the existing tag that differs from this one at most in upper and lower case; None if there is none."""
    names = {key[0] for key in state}
    return tag if tag in names else next((name for name in sorted(names) if name.casefold() == tag.casefold()), None)


def _required_spelling(state: _State, tag: str) -> str:
    name = _existing_spelling(state, " ".join(unicodedata.normalize("NFC", tag).split()))
    if name is None:
        known = ", ".join(sorted({key[0] for key in state})) or "none yet"
        raise Missing(f"no question has the tag {tag[:80]!r}; tags: {known[:500]}")
    return name


def _check_questions(connection: sqlite3.Connection, questions: Iterable[str]) -> None:
    for question in questions:
        if connection.execute("SELECT 1 FROM question WHERE id = ?", (question,)).fetchone() is None:
            raise Missing(f"there is no question {question!r} in this study")


def _sort_key(key: _Key) -> tuple[str, ...]:
    return tuple(part or "" for part in key)
