"""Describe in sentences for leads which people a batch is waiting for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from blindspot.backend.text.number_words import noun_form, quantity
from blindspot.db.people import Person
from blindspot.db.waiting import Reassignment, UnfinishedQuestion

MAX_NAMES = 6


def waiting_lines(waiting: Iterable[UnfinishedQuestion], people: Iterable[Person]) -> list[str]:
    """Return one sentence for each group of questions that wait for the same people, blocked groups first.

    Args:
        people: Everybody in the study.
    """
    known = {person.name: person for person in people}
    groups = Counter((not each.is_blocked, each.reserved, each.people, each.missing) for each in waiting)
    return [
        _waiting_sentence(count, reserved, names, missing, known)
        for (_, reserved, names, missing), count in sorted(groups.items(), key=lambda group: (group[0][0], -group[1]))
    ]


def waiting_names(waiting: Iterable[UnfinishedQuestion]) -> str:
    """Return the people whom every unfinished question waits for, as "ann or ben"; "" if the questions wait for
    different people, or if something keeps one from being judged.
    """
    groups = {(each.is_blocked, each.reserved, each.people, each.missing) for each in waiting}
    if len(groups) != 1:
        return ""
    ((is_blocked, holder, names, missing),) = groups
    if is_blocked or (holder is not None and holder not in names) or len(names) < missing:
        return ""
    if holder is not None:
        return holder
    return f"{'' if missing == 1 else f'{missing} of '}{_any_of(names)}"


def reassignment_sentence(result: Reassignment) -> str:
    """Describe in a sentence or two how blocked questions were reassigned to other people."""
    if not (result.moved_count or result.done_count or result.skipped_count):
        return "No question is waiting for a person who is not active."
    sentences = []
    if result.moved_count:
        sentences.append(f"Active people now get {quantity(result.moved_count, 'question')}.")
    if result.done_count:
        sentences.append(
            f"{quantity(result.done_count, 'question')} {noun_form(result.done_count, 'counts', 'count')} as done: no other active person "
            "can judge more."
        )
    if result.skipped_count:
        sentences.append(
            f"{quantity(result.skipped_count, 'question')} {noun_form(result.skipped_count, 'was', 'were')} skipped by every active person; "
            "invite somebody, or close the batch."
        )
    return " ".join(sentences)


def _waiting_sentence(
    count: int, holder: str | None, names: Sequence[str], missing_names: int, known_names: dict[str, Person]
) -> str:
    questions = quantity(count, "question")
    if holder is not None:
        verb = noun_form(count, "is", "are")
        if holder in names:
            return f"{questions} {verb} reserved for {holder}."
        return f"{questions} {verb} reserved for {holder}, who {_waiting_reason(known_names.get(holder), count)}."
    if len(names) >= missing_names:
        more = "" if missing_names == 1 else f"{missing_names} of "
        return f"{questions} {noun_form(count, 'waits', 'wait')} for {more}{_any_of(names)}."
    need = f"{questions} {noun_form(count, 'needs', 'need')} {quantity(missing_names, 'more person', 'more people')}"
    if not names:
        return f"{need}, but every active person has judged or skipped {noun_form(count, 'it', 'them')}."
    return f"{need}, but only {_all_of(names)} can still judge {noun_form(count, 'it', 'them')}."


def _waiting_reason(person: Person | None, count: int) -> str:
    if person is None:
        return "is not in the study"
    if person.simulated:
        return "is simulated"
    if person.kind == "machine":
        return "is a machine"
    return "is paused" if person.paused else f"has judged or skipped {noun_form(count, 'it', 'them')} before"


def _any_of(names: Sequence[str]) -> str:
    if len(names) > MAX_NAMES:
        return f"any of {len(names)} people"
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _all_of(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
