"""Map gold passages to passages of this collection when a file gives them as texts or as ids of another collection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from blindspot.backend.core.study import Study
from blindspot.backend.data.formats.base import ImportedQuestion, Paragraph
from blindspot.backend.progress import Progress
from blindspot.backend.text.answers import DEFAULT_RULE, rule_for
from blindspot.backend.text.gold_matching import THRESHOLD, GoldParagraph, containment, lower_tokens, match_gold
from blindspot.backend.text.number_words import noun_form, quantity
from blindspot.db.corpus import Corpus
from blindspot.db.gold import GoldMatch
from blindspot.db.records import Question

PREFIX = "wiki:"  # newer DPR files write it before their passages' ids, older ones do not


def text_key(text: str) -> str:
    """Return a key of a question's text that ignores spaces and the kind of apostrophe, because DPR changes both."""
    return " ".join(text.replace("\u2019", "'").split())


def toggle_wiki_prefix(id: str) -> str:
    """Return the id with the prefix `wiki:` added or removed."""
    return id.removeprefix(PREFIX) if id.startswith(PREFIX) else PREFIX + id


def find_ordinals(corpus: Corpus, ids: Iterable[str]) -> dict[str, int]:
    """Return the row of each id, also if the collection has it with or without the prefix `wiki:`. Unknown ids are left
    out.
    """
    ids = list(ids)
    ordinals = corpus.ordinals(ids)
    absent = {toggle_wiki_prefix(id): id for id in ids if id not in ordinals}
    return (
        ordinals | {absent[form]: ordinal for form, ordinal in corpus.ordinals(absent).items()} if absent else ordinals
    )


def known_ids(corpus: Corpus, ids: Iterable[str]) -> dict[str, str]:
    """Return the collection's form of each id, with or without the prefix `wiki:`. Unknown ids are left out."""
    ordinals = find_ordinals(corpus, ids)
    rows = sorted(set(ordinals.values()))
    own = {ordinal: passage.id for ordinal, passage in zip(rows, corpus.passages(rows), strict=True)}
    return {id: own[ordinal] for id, ordinal in ordinals.items()}


def resolve_paragraphs(
    study: Study, items: Sequence[ImportedQuestion], progress: Progress | None = None
) -> tuple[list[Question], list[GoldMatch]]:
    """Return the questions with their paragraphs resolved to gold passages, and how each paragraph was matched.

    A paragraph whose id is in the collection is matched to the passage with that id. If the two texts have nothing in
    common, the id belongs to another collection, and the paragraph is matched by its text.
    """
    if not any(item.paragraphs for item in items):
        return [item.question for item in items], []
    by_id = _passages_by_paragraph_id(study, items)
    todo = {
        (item.question.id, number): (item.question, paragraph)
        for item in items
        for number, paragraph in enumerate(item.paragraphs)
    }
    todo = {key: pair for key, pair in todo.items() if key not in by_id}
    paragraphs = [_gold_paragraph(question, paragraph) for question, paragraph in todo.values()]
    found = dict(zip(todo, match_gold(study.corpus, paragraphs, progress=progress), strict=True))
    ordinals = sorted({match.ordinal for match in found.values() if match.ordinal is not None})
    ids = {ordinal: passage.id for ordinal, passage in zip(ordinals, study.corpus.passages(ordinals), strict=True)}
    questions, matches = [], []
    for item in items:
        result = []
        for number in range(len(item.paragraphs)):
            key = item.question.id, number
            if key in by_id:
                result.append(GoldMatch(item.question.id, by_id[key], "id"))
            else:
                match = found[key]
                result.append(
                    GoldMatch(
                        item.question.id,
                        None if match.ordinal is None else ids[match.ordinal],
                        match.how,
                        round(match.score, 4),
                        match.reason,
                    )
                )
        gold = dict.fromkeys([*item.question.gold, *(match.passage for match in result if match.passage is not None)])
        questions.append(replace(item.question, gold=tuple(gold)))
        matches += result
    return questions, matches


def gold_notes(items: Sequence[ImportedQuestion], matches: Sequence[GoldMatch]) -> tuple[str, ...]:
    """Summarise for the user how gold passages were matched, one line each."""
    if not any(item.paragraphs for item in items):
        return ()
    ways = Counter(match.how for match in matches)
    named = (("id", "id"), ("same text", "the same text"), ("overlap", "overlap"))
    parts = [f"{ways[how]:,} by {name}" for how, name in named if ways[how]]
    overlaps = [match.score for match in matches if match.how == "overlap" and match.score is not None]
    if overlaps:
        parts[-1] += f" (scores {min(overlaps):.2f} to {max(overlaps):.2f})"
    lines = [f"Gold passages found: {', '.join(parts) or 'none'}, of {len(matches):,} named."]
    for reason, count in Counter(match.reason for match in matches if match.reason).items():
        lines.append(f"{count:,} not found: {reason}.")
    with_gold = {match.question for match in matches if match.passage is not None}
    bare = sum(item.question.id not in with_gold and not item.question.gold for item in items)
    if bare:
        lines.append(f"{quantity(bare, 'question')} {noun_form(bare, 'has')} no gold.")
    return tuple(lines)


def graded_notes(judgements: Sequence[GoldMatch]) -> tuple[str, ...]:
    """Summarise recorded judgements for the user: how many, with which grades. Empty if every grade is 1."""
    grades = Counter(int(match.score) for match in judgements if match.score is not None)
    if set(grades) <= {1}:
        return ()
    counts = ", ".join(f"{quantity(count, 'pair')} of grade {grade}" for grade, count in sorted(grades.items()))
    return (f"Judgements kept: {counts}.",)


def _passages_by_paragraph_id(study: Study, items: Sequence[ImportedQuestion]) -> dict[tuple[str, int], str]:
    """Map (question id, number of the paragraph) to the passage with the paragraph's id."""
    named = [
        (item.question.id, number, p, p.id)
        for item in items
        for number, p in enumerate(item.paragraphs)
        if p.id is not None
    ]
    ordinals = find_ordinals(study.corpus, {id for _, _, _, id in named})
    by_id: dict[tuple[str, int], str] = {}
    for start in range(0, len(named), 1000):
        block = [row for row in named[start : start + 1000] if row[3] in ordinals]
        passages = study.corpus.passages(ordinals[id] for _, _, _, id in block)
        for (question, number, paragraph, _), passage in zip(block, passages, strict=True):
            if _is_same_text(paragraph.text, passage.text):
                by_id[question, number] = passage.id
    return by_id


def _is_same_text(text: str, other_text: str) -> bool:
    if not text or text.split() == other_text.split():
        return True
    ours, theirs = lower_tokens(text), lower_tokens(other_text)
    return ours == theirs or containment(ours, theirs) >= THRESHOLD


def _gold_paragraph(question: Question, paragraph: Paragraph) -> GoldParagraph:
    return GoldParagraph(paragraph.title, paragraph.text, question.answers, rule_for(question, DEFAULT_RULE))
