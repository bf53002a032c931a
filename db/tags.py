"""Tags: words that people give to questions, such as "wrong gold" or "negation". Tag events are only ever added; the
current tags follow from the events in order.
"""

from __future__ import annotations

import sqlite3
import unicodedata
from collections import Counter

from blindspot.db.connection import PerThread, insert, store_transaction
from blindspot.db.errors import BadInput, Missing
from blindspot.db.names import MAX_NAME, name_problem
from blindspot.db.people import require

RESERVED = frozenset(
    "only_a only_b both both_fail bm25_only dense_only gold_below_unlabelled answer_in_unlabelled".split()
)
"""Names of the tags that slices compute from runs."""


class Tags(PerThread):
    """The tags of one labels.db. Threads may share it."""

    def all_tags(self) -> list[tuple[str, str]]:
        """Return the current tags as (tag, question), in the order in which they were given."""
        return list(_current_tags(self.connection))

    def of_question(self, question: str) -> list[str]:
        """Return the tags of a question, in the order in which they were given."""
        return [tag for tag, tagged in self.all_tags() if tagged == question]

    def known(self) -> list[str]:
        """Return every tag that a question has, the most frequent first."""
        counts = Counter(tag for tag, _ in self.all_tags())
        return sorted(counts, key=lambda tag: (-counts[tag], tag.casefold(), tag))

    def questions(self, tag: str) -> set[str]:
        """Return the ids of the questions with a tag, ignoring upper and lower case.

        Raises:
            Missing: No question has the tag.
        """
        tags = self.all_tags()
        name = _required_spelling(tags, tag)
        return {question for tagged, question in tags if tagged == name}

    def add(self, tag: str, question: str, actor: str) -> str:
        """Tag a question, and return the tag in the spelling that was stored. A question that already has the tag stays
        unchanged.

        Raises:
            BadInput: The tag is not a word, or its name is one of `RESERVED`.
            Missing: The question or the person does not exist.
            Refused: The person may not tag.
        """
        name = check_tag(tag)
        with store_transaction(self) as connection:
            require(connection, actor, "tag questions")
            if connection.execute("SELECT 1 FROM question WHERE id = ?", (question,)).fetchone() is None:
                raise Missing(f"there is no question {question!r} in this study")
            tags = list(_current_tags(connection))
            name = _existing_spelling(tags, name) or name
            if (name, question) not in tags:
                self._write_event(connection, "add", name, question, actor)
        return name

    def remove(self, tag: str, question: str, actor: str) -> None:
        """Remove a tag from a question.

        Raises:
            Missing: The question does not have the tag.
            Refused: The person may not tag.
        """
        with store_transaction(self) as connection:
            require(connection, actor, "tag questions")
            tags = list(_current_tags(connection))
            name = _required_spelling(tags, tag)
            if (name, question) not in tags:
                raise Missing(f"question {question!r} has no tag {name!r}")
            self._write_event(connection, "remove", name, question, actor)

    def _write_event(self, connection: sqlite3.Connection, kind: str, tag: str, question: str, actor: str) -> None:
        event = {"kind": kind, "tag": tag, "question": question, "annotator": actor}
        insert(connection, "tag_event", **event, server_time=self._clock())


def check_tag(tag: str) -> str:
    """Return a tag with single spaces between its words. Raises BadInput for a text that cannot be a tag."""
    name = " ".join(unicodedata.normalize("NFC", tag).split())
    if problem := name_problem(name) or ("contains a comma" if "," in name else None):
        raise BadInput(f"the tag {tag[:80]!r} {problem}; a tag is 1 to {MAX_NAME} characters without commas")
    if name.casefold() in RESERVED:
        raise BadInput(f"the tag {name!r} is one that slices compute from runs; take another word")
    return name


def _current_tags(connection: sqlite3.Connection) -> dict[tuple[str, str], None]:
    """Return the tags after all events: (tag, question), in the order in which they were given."""
    tags: dict[tuple[str, str], None] = {}
    for kind, *key in connection.execute("SELECT kind, tag, question FROM tag_event ORDER BY number"):
        tags.pop(tuple(key), None)
        if kind == "add":
            tags[tuple(key)] = None
    return tags


def _existing_spelling(tags: list[tuple[str, str]], tag: str) -> str | None:
    """Return the existing tag that differs from this one at most in upper and lower case; None if there is none."""
    names = {name for name, _ in tags}
    return tag if tag in names else next((name for name in sorted(names) if name.casefold() == tag.casefold()), None)


def _required_spelling(tags: list[tuple[str, str]], tag: str) -> str:
    name = _existing_spelling(tags, " ".join(unicodedata.normalize("NFC", tag).split()))
    if name is None:
        known = ", ".join(sorted({name for name, _ in tags})) or "none yet"
        raise Missing(f"no question has the tag {tag[:80]!r}; tags: {known[:500]}")
    return name
