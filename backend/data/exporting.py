"""Export parts of a study in the formats of other tools. Files are streamed. If the export fails, no partial file is
left.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from blindspot.backend.core.runs import Run, answer_matrix
from blindspot.backend.core.splits import questions_in_split
from blindspot.backend.core.study import Study
from blindspot.backend.core.ties import check_ties, tied_order
from blindspot.backend.data.formats import find_writer
from blindspot.backend.data.formats.base import Format
from blindspot.db.errors import Missing
from blindspot.db.gold import GoldMatches
from blindspot.db.labels import Labels
from blindspot.db.records import Passage, Question

QUESTIONS_PER_BLOCK = 200


@dataclass(frozen=True, slots=True)
class ExportResult:
    """An exported file.

    Attributes:
        rows: Number of rows; `unit` says what a row is.
        notes: What the format cannot represent, one line each.
    """

    path: Path
    rows: int
    notes: tuple[str, ...] = ()
    unit: str = "row"


def export_run(study: Study, name: str, format: str, path: Path | None = None, ties: str = "file") -> ExportResult:
    """Export a run. If the format has answer flags, they are those of the run's own answer-matching rule.

    Args:
        format: "trec", "dpr", "pyserini" or "msmarco".
        path: Default the run's name with the format's ending, in the current folder.
        ties: The order of hits with equal scores (see `blindspot.backend.core.ties`); "file" keeps the run's order.

    Raises:
        Refused: an unknown format, or content that the format cannot represent.
        Missing: an unknown run.
    """
    chosen = find_writer("runs", format)
    check_ties(ties)
    run = study.run(name)
    return _export(chosen, path, name, name, _entries_with_answers(study, run, ties))


def export_questions(study: Study, format: str, split: str | None = None, path: Path | None = None) -> ExportResult:
    """Export the questions of a split (see `questions_in_split`), or all. Raises as `export_run` does."""
    chosen = find_writer("questions", format)
    questions, notes = corrected_gold(study, questions_in_split(study, split))
    grades = judgements_of(study, questions)
    name = f"questions-{split}" if split else "questions"
    if chosen.graded:
        return _export(chosen, path, name, questions, grades, notes=notes)
    rejected = Labels(study.labels_path).rejected_gold()
    recorded = ((id, passage, grade) for id, of_question in grades.items() for passage, grade in of_question.items())
    if not all(grade == 1 or passage in rejected.get(id, ()) for id, passage, grade in recorded):
        notes = (*notes, "The format cannot store grades; 'blindspot export qrels' writes them.")
    return _export(chosen, path, name, questions, notes=notes)


def corrected_gold(study: Study, questions: Sequence[Question]) -> tuple[list[Question], tuple[str, ...]]:
    """Return questions with their gold passages corrected by people's labels, and one line about the changes, if there
    are any.

    Gold passages that people labelled related or negative, or on which they disagree, are removed. Passages that people
    labelled positive are added (`blindspot.db.labels.Labels.corrected_relevance`).
    """
    mended, rejected, disputed, added = [], 0, 0, 0
    judged: dict[str, dict[str, str]] = defaultdict(dict)
    for pair in Labels(study.labels_path).corrected_relevance([question.id for question in questions]):
        if pair.state != "gold":
            judged[pair.question][pair.passage] = pair.relevance
    for question in questions:
        labels = judged.get(question.id, {})
        kept = [passage for passage in question.gold if labels.get(passage, "positive") == "positive"]
        new = sorted(passage for passage, label in labels.items() if label == "positive" and passage not in kept)
        open_gold = sum(labels.get(passage) == "open" for passage in question.gold)
        rejected, disputed = rejected + len(question.gold) - len(kept) - open_gold, disputed + open_gold
        added += len(new)
        mended.append(replace(question, gold=(*kept, *new)) if labels else question)
    if not (rejected or disputed or added):
        return mended, ()
    changes = (
        f"{rejected:,} that people reject are left out, {disputed:,} in dispute are left out, "
        f"{added:,} that people call positive are added"
    )
    return mended, (f"Gold passages as people mended them: {changes}.",)


def judgements_of(study: Study, questions: Sequence[Question]) -> dict[str, dict[str, int]]:
    """Return the grade of each judged passage, by question. Questions without judged passages are left out.

    A gold passage gets grade 1 if the imported qrels have no positive grade for it. Grades of 0 or less come from the
    qrels; gold passages that people rejected get 0.
    """
    rejected = Labels(study.labels_path).rejected_gold()
    recorded: dict[str, dict[str, int]] = defaultdict(dict)
    for (id, passage), grade in GoldMatches(study.labels_path).grades().items():
        recorded[id][passage] = grade
    judged: dict[str, dict[str, int]] = {}
    for question in questions:
        known = recorded.get(question.id, {})
        gold = {passage: max(known.get(passage, 1), 1) for passage in question.gold}
        others = {passage: grade for passage, grade in known.items() if passage not in gold and grade <= 0}
        others |= dict.fromkeys(sorted(rejected.get(question.id, set()) - gold.keys()), 0)
        if gold or others:
            judged[question.id] = gold | others
    return judged


def export_qrels(study: Study, format: str, split: str | None = None, path: Path | None = None) -> ExportResult:
    """Export the judgements of the questions of a split, or of all questions, as qrels (see `judgements_of`).

    Raises:
        Missing: no question has gold or judgements.
        Refused: as `export_run`.
    """
    chosen = find_writer("qrels", format)
    questions, notes = corrected_gold(study, questions_in_split(study, split))
    judged = judgements_of(study, questions)
    if not judged:
        raise Missing("none of these questions has gold passages; import qrels or questions that name them")
    rows = ((question, passage, grade) for question, grades in judged.items() for passage, grade in grades.items())
    name = f"qrels-{split}" if split else "qrels"
    return _export(chosen, path, name, rows, notes=notes)


def export_passages(study: Study, format: str, path: Path | None = None) -> ExportResult:
    """Export the passage collection. Raises Missing if there is none, Refused for an unknown format."""
    chosen = find_writer("passages", format)
    return _export(chosen, path, "passages", study.corpus.scan())


def _export(
    format: Format, path: Path | None, name: str, *content: object, notes: tuple[str, ...] = ()
) -> ExportResult:
    # A split may be named "similar/dev"; the file name must not contain the slash.
    target = path or Path(re.sub(r"[^\w.-]+", "-", name).lstrip(".") + format.suffix)
    written = format.write_to(target, *content)
    return ExportResult(target, written.rows, (*written.notes, *notes), written.unit)


def _passage_blocks(study: Study, run: Run) -> Iterator[list[list[Passage]]]:
    """Yield the passages of each question in rank order, a block of questions at a time."""
    for start in range(0, len(run.hits), QUESTIONS_PER_BLOCK):
        ordinals = run.hits.ordinals[start : start + QUESTIONS_PER_BLOCK]
        passages = iter(study.corpus.passages(ordinals[ordinals >= 0].tolist()))
        yield [[next(passages) for _ in range(int((row >= 0).sum()))] for row in ordinals]


def _entries_with_answers(
    study: Study, run: Run, ties: str
) -> Iterator[tuple[Question, list[tuple[Passage, float, bool]]]]:
    answers, row = answer_matrix(study, run), 0
    for block in _passage_blocks(study, run):
        questions = study.questions.with_ids(run.question_ids[row : row + len(block)])
        for question, passages in zip(questions, block, strict=True):
            present = len(passages)
            scores, rows = run.hits.scores[row, :present], run.hits.ordinals[row, :present]
            order = tied_order(scores, rows, [passage.id for passage in passages], ties)
            yield question, [(passages[i], float(scores[i]), bool(answers[row, i])) for i in order]
            row += 1
