"""Copy relation, subject, frequency and bucket from the same questions in another file to questions that lack them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence, Set
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from blindspot.backend.data.formats import find_format
from blindspot.backend.data.formats.base import Options
from blindspot.backend.data.importing.gold import text_key
from blindspot.backend.data.importing.tools import ThrottledProgress
from blindspot.db.errors import BadInput
from blindspot.db.records import Question


def with_facts(
    questions: Sequence[Question], path: Path, split: str, report: ThrottledProgress
) -> tuple[list[Question], int]:
    """Return the questions with the facts from a questions file, and the number of questions found in that file.

    Questions are matched by their texts. If the file contains a text more than once, the question that shares an answer
    is used.

    Args:
        split: where to look first; the rest of the file is read only if some questions are not there.

    Raises:
        BadInput: the first thing that is wrong with the file, or a file that holds none of the questions.
    """
    wanted = {text_key(question.text) for question in questions}
    held = _questions_by_text(path, Options(split), wanted, report)
    if held.keys() < wanted:
        with suppress(BadInput):  # rows of other splits that cannot be read; a file without splits was read in full
            held = {**_questions_by_text(path, Options(), wanted, report), **held}
    if not held:
        raise BadInput(
            "holds none of the questions of the results files; give the questions file that they were made with", path
        )
    found = [(question, _matching_question(question, held.get(text_key(question.text), ()))) for question in questions]
    return [_with_facts(question, facts) for question, facts in found], sum(facts is not None for _, facts in found)


def _questions_by_text(
    path: Path, options: Options, texts: Set[str], report: ThrottledProgress
) -> dict[str, list[Question]]:
    """Return the file's questions with one of the wanted texts, by text."""
    questions_by_text: dict[str, list[Question]] = defaultdict(list)
    with find_format(path, "questions", None).opened(path, options) as items:
        for count, item in enumerate(items, 1):
            if isinstance(item, BadInput):
                raise item
            if (key := text_key(item.question.text)) in texts:
                questions_by_text[key].append(item.question)
            report(count, None, f"reading {path.name}")
    return dict(questions_by_text)


def _matching_question(question: Question, candidates: Sequence[Question]) -> Question | None:
    answers = set(question.answers)
    return next((each for each in candidates if answers & set(each.answers)), next(iter(candidates), None))


def _with_facts(question: Question, facts: Question | None) -> Question:
    if facts is None:
        return question
    return replace(
        question,
        relation=facts.relation,
        subject=facts.subject,
        template=facts.template,
        frequency=facts.frequency,
        bucket=facts.bucket,
    )
