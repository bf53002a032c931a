"""Edits of a missed question, of its gold passage, or of the list above it. Each undoes one possible cause of a miss.

An edit is a pure function of a `MissedQuestion`. It returns None where it does not apply: where there is nothing of its
kind to change. `EDITS` names them in the order that decides between edits of equal size.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from blindspot.backend.evaluation.question_facts import content_words
from blindspot.backend.evaluation.why import name_words, near_namesake
from blindspot.backend.interventions.sentences import answer_sentence, contains, sentences
from blindspot.backend.text.answers import (
    DEFAULT_RULE,
    answer_spans,
    has_answer,
    joined,
    mentions_subject,
    nfd,
    rule_for,
)
from blindspot.db.records import Passage, Question

NAMESAKE_SHARE = 0.5  # share of the words of the subject's name that a namesake's title contains
PRONOUNS = {"he": "{}", "she": "{}", "it": "{}", "they": "{}", "his": "{}'s", "her": "{}'s", "its": "{}'s"}


@dataclass(frozen=True, slots=True)
class MissedQuestion:
    """A question whose gold passage a dense run misses.

    gold: the best gold passage. above: (row, passage) of the passages that rank above it, best first; only the top
    ones. plain: the question in the most frequent wording of training questions with its relation; None if unknown.
    stand_in: the subject of the same relation with the most mentions; None without one that is much more frequent than
    the question's own subject.
    """

    question: Question
    gold: Passage
    above: tuple[tuple[int, Passage], ...] = ()
    plain: str | None = None
    stand_in: str | None = None
    rule: str = DEFAULT_RULE


@dataclass(frozen=True, slots=True)
class EditedMiss:
    """A miss after an edit.

    question, passage: the edited texts. changed: the number of their tokens that were inserted, deleted, replaced or
    moved; 0 if only other passages were removed. removed: rows that no longer compete. still_above: rows that count as
    above the gold whatever their score. ignored: passages whose title contains this name do not compete.
    """

    question: str
    passage: Passage
    changed: int
    removed: frozenset[int] = frozenset()
    still_above: frozenset[int] = frozenset()
    ignored: str = ""


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit. cause: the cause of the miss if this edit is the smallest that mends it. does: the edit in words."""

    name: str
    cause: str
    does: str
    apply: Callable[[MissedQuestion], EditedMiss | None]


def size(miss: MissedQuestion, edited: EditedMiss) -> float:
    """Return the share of tokens that an edit changes, of those in the question and in the gold passage's title and
    text.
    """
    return edited.changed / max(1, len(_tokens(miss.question.text, miss.gold)))


def relabel(miss: MissedQuestion) -> EditedMiss | None:
    """Count passages above that contain an answer and name the subject as gold. No text changes."""
    rule = rule_for(miss.question, miss.rule)
    rows = frozenset(
        row
        for row, passage in miss.above
        if miss.question.subject
        and mentions_subject(passage, miss.question)
        and has_answer(passage.text, miss.question.answers, rule, passage.title)
    )
    return EditedMiss(miss.question.text, miss.gold, 0, removed=rows) if rows else None


def ask_plainly(miss: MissedQuestion) -> EditedMiss | None:
    """Ask the question in the usual wording of training questions."""
    if miss.plain is None or joined(nfd(miss.plain)) == joined(nfd(miss.question.text)):
        return None
    return EditedMiss(miss.plain, miss.gold, changed_tokens(miss.question.text.split(), miss.plain.split()))


def remove_namesakes(miss: MissedQuestion) -> EditedMiss | None:
    """Remove the passages above whose title is another entity with a similar name."""
    subject = miss.question.subject
    rows = frozenset(row for row, each in miss.above if near_namesake(subject, each.title) >= NAMESAKE_SHARE)
    return EditedMiss(miss.question.text, miss.gold, 0, removed=rows) if rows else None


def move_first(miss: MissedQuestion) -> EditedMiss | None:
    """Move the answer's sentence to the beginning of the passage."""
    parts, at = _answer(miss)
    if not at:
        return None
    text = " ".join([parts[at], *parts[:at], *parts[at + 1 :]])
    return EditedMiss(miss.question.text, replace(miss.gold, text=text), len(parts[at].split()))


def name_subject(miss: MissedQuestion) -> EditedMiss | None:
    """Name the subject in the answer's sentence."""
    parts, at = _answer(miss)
    if at is None or not miss.question.subject or contains(parts[at], miss.question.subject):
        return None
    parts[at] = _named(parts[at], miss.question.subject)
    return _of_text(miss, " ".join(parts))


def put_words_in(miss: MissedQuestion) -> EditedMiss | None:
    """Say the answer's sentence in the question's words, if the passage lacks content words of the question."""
    parts, at = _answer(miss)
    asked = miss.plain or miss.question.text
    known = content_words(miss.question.subject or "") | {w for a in miss.question.answers for w in content_words(a)}
    whole = f"{miss.gold.title} {miss.gold.text}"
    if at is None or all(contains(whole, word) for word in content_words(asked) - known):
        return None
    rule = rule_for(miss.question, miss.rule)
    start, end = answer_spans(parts[at], miss.question.answers, rule)[0]
    parts[at] = f"{asked} {parts[at][start:end]}."
    return _of_text(miss, " ".join(parts))


def give_own_title(miss: MissedQuestion) -> EditedMiss | None:
    """Make the passage the subject's own: its name replaces the title, and the title's name in the text."""
    subject, title = miss.question.subject, miss.gold.title
    if not subject or name_words(title) == name_words(subject):
        return None
    text = renamed(miss.gold.text, title, subject) if title.strip() else miss.gold.text
    passage = Passage(miss.gold.id, subject, text)
    changed = changed_tokens(_tokens("", miss.gold), _tokens("", passage))
    return EditedMiss(miss.question.text, passage, changed)


def rename_subject(miss: MissedQuestion) -> EditedMiss | None:
    """Replace the subject by a frequent name, in question and passage alike.

    Passages about the stand-in do not compete, and passages above that are about the subject stay above: they would
    have been renamed too.
    """
    subject, name = miss.question.subject, miss.stand_in
    if not subject or not name or not contains(miss.question.text, subject):
        return None
    question = renamed(miss.question.text, subject, name)
    passage = Passage(miss.gold.id, renamed(miss.gold.title, subject, name), renamed(miss.gold.text, subject, name))
    if passage == miss.gold or question == miss.question.text:
        return None
    changed = changed_tokens(_tokens(miss.question.text, miss.gold), _tokens(question, passage))
    own = frozenset(row for row, each in miss.above if name_words(each.title) == name_words(subject))
    return EditedMiss(question, passage, changed, still_above=own, ignored=name)


def keep_sentence(miss: MissedQuestion) -> EditedMiss | None:
    """Cut everything but the answer's sentence, with the subject named in it."""
    parts, at = _answer(miss)
    if at is None or len(parts) < 2:
        return None
    subject = miss.question.subject
    text = _named(parts[at], subject) if subject and not contains(parts[at], subject) else parts[at]
    return _of_text(miss, text)


EDITS: dict[str, Edit] = {
    edit.name: edit
    for edit in (
        Edit("relabel", "false_negative_above", "count the answering passages above as gold", relabel),
        Edit("remove_namesakes", "near_namesake", "remove the near-namesakes above", remove_namesakes),
        Edit("ask_plainly", "question_wording", "ask in the wording of training questions", ask_plainly),
        Edit(
            "give_own_title",
            "other_entity_passage",
            "replace the title's name by the subject's, in title and text",
            give_own_title,
        ),
        Edit("put_words_in", "other_words", "say the answer's sentence in the question's words", put_words_in),
        Edit("name_subject", "unnamed_subject", "name the subject in the answer's sentence", name_subject),
        Edit("rename_subject", "rare_subject", "replace the subject by a frequent name", rename_subject),
        Edit("move_first", "late_fact", "move the answer's sentence first", move_first),
        Edit("keep_sentence", "crowded_passage", "cut all but the answer's sentence", keep_sentence),
    )
}
"""Every edit by name. Of edits of equal size that mend a miss, the first here names its cause."""


def edited(miss: MissedQuestion) -> dict[str, EditedMiss]:
    """Return the edits that apply to a miss, smallest first; equal sizes in the order of `EDITS`."""
    made = {name: result for name, edit in EDITS.items() if (result := edit.apply(miss)) is not None}
    return dict(sorted(made.items(), key=lambda item: item[1].changed))


def changed_tokens(before: Sequence[str], after: Sequence[str]) -> int:
    """Count the tokens that were inserted, deleted or replaced."""
    return sum(
        max(end - start, new_end - new_start)
        for tag, start, end, new_start, new_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        if tag != "equal"
    )


def renamed(text: str, subject: str, name: str) -> str:
    """Replace a name in a text; of a name of several words, then its last word alone, by the last word of the new
    name.
    """
    text = re.sub(rf"(?<!\w){re.escape(subject)}(?!\w)", lambda _: name, text, flags=re.IGNORECASE)
    words = subject.split()
    if len(words) > 1 and words[-1][:1].isupper():
        text = re.sub(rf"(?<!\w){re.escape(words[-1])}(?!\w)", lambda _: name.split()[-1], text)
    return text


def _answer(miss: MissedQuestion) -> tuple[list[str], int | None]:
    parts, rule = sentences(miss.gold.text), rule_for(miss.question, miss.rule)
    return parts, answer_sentence(parts, miss.plain or miss.question.text, miss.question.answers, rule)


def _named(sentence: str, subject: str) -> str:
    first, space, rest = sentence.partition(" ")
    form = PRONOUNS.get(first.lower())
    return f"{form.format(subject)}{space}{rest}" if form else f"{subject}: {sentence}"


def _of_text(miss: MissedQuestion, text: str) -> EditedMiss:
    changed = changed_tokens(miss.gold.text.split(), text.split())
    return EditedMiss(miss.question.text, replace(miss.gold, text=text), changed)


def _tokens(question: str, passage: Passage) -> list[str]:
    return f"{question} {passage.title} {passage.text}".split()
