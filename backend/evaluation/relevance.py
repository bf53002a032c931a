"""Determine which hits of a run are relevant. The report and every page use this definition.

There are three kinds of relevance. By "answers", a hit is relevant if the passage contains an answer according to a
named matching rule. By "gold", it is relevant if the passage is gold for the question and people have not rejected it.
By "labels", it is relevant if the passage is gold or labelled positive, and no settled label contradicts this. If no
question of a run has answers, "gold" is used instead of "answers", and `Relevance.kind` states this.

Relevance by gold and by labels is graded: a pair has the grade of the imported qrels, or else 1. A question whose
imported qrels contain no relevant passage is measured and gets 0, as in trec_eval. A question without judgements is
left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from blindspot.backend.core.gold import gold_matrix
from blindspot.backend.core.runs import Run
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.settings import Kind as Kind
from blindspot.backend.text.answers import DEFAULT_RULE, match_run, rule_named
from blindspot.db.errors import BadInput, Missing
from blindspot.db.gold import GoldMatches
from blindspot.db.labels import Labels
from blindspot.db.question_table import columns_of, ids_of, take
from blindspot.db.records import Question

KINDS: tuple[str, ...] = ("answers", "gold", "labels")


@dataclass(frozen=True, slots=True)
class Relevance:
    """The relevant hits of a run, for its measured questions.

    Attributes:
        rows: (q',) int64, the measured rows of the run, ascending.
        relevant: (q', k) bool.
        n_relevant: (q',) int64, the number of relevant passages in the whole collection; None by answers, where it is
            unknown.
        questions: the q' questions.
        kind: the relevance used: "gold" even if "answers" was requested, if no question has answers.
        requested_kind: the requested relevance.
        left_out: the number of questions that are not measured, by reason.
        grades: (q', k) int16, the grade of each hit, 0 if it is not relevant
        ideal: (q', m) int16, the grades of all relevant passages of each question, falling, padded with 0. Both are
            None by answers.
        judged: (q', k) bool, whether the hit is gold or has a settled label; None unless kind is "labels".
    """

    rows: np.ndarray
    relevant: np.ndarray
    n_relevant: np.ndarray | None
    questions: Sequence[Question]
    kind: Kind
    requested_kind: Kind
    rule: str | None
    left_out: dict[str, int]
    grades: np.ndarray | None = None
    ideal: np.ndarray | None = None
    judged: np.ndarray | None = None


def relevant(
    study: Study,
    run: Run,
    relevance: Kind = "answers",
    rule: str = DEFAULT_RULE,
    questions: Sequence[Question] | None = None,
    as_imported: bool = False,
) -> Relevance:
    """Return which hits of `run` are relevant.

    Args:
        relevance: "answers", "gold" or "labels".
        rule: matching rule for answers. If the run has no stored matrix for the rule, the matrix is computed and not
            stored.
        questions: the run's questions in its order, if the caller has them.
        as_imported: gold that people reject counts as well.

    Raises: BadInput for an unknown relevance, Missing for an unknown rule.
    """
    if relevance not in KINDS:
        raise BadInput(f"relevance must be 'answers', 'gold' or 'labels', not {relevance!r}")
    rule_named(rule)
    questions = study.questions.with_ids(run.question_ids) if questions is None else questions
    if relevance == "answers" and columns_of(questions).has_answers.any():
        return _by_answers(study, run, rule, questions)
    if relevance == "labels":
        return _by_labels(study, run, questions)
    return _by_gold(study, run, relevance, questions, {} if as_imported else Labels(study.labels_path).rejected_gold())


def _by_answers(study: Study, run: Run, rule: str, questions: Sequence[Question]) -> Relevance:
    rows = np.flatnonzero(columns_of(questions).has_answers)
    try:
        matrix = run.answers(rule)
    except Missing:
        matrix = match_run(study.corpus, questions, run.hits.ordinals, rule)
    if len(rows) == len(questions):
        return Relevance(rows, np.asarray(matrix), None, questions, "answers", "answers", rule, {})
    left_out = {"no answers": len(questions) - len(rows)}
    return Relevance(rows, np.asarray(matrix)[rows], None, take(questions, rows), "answers", "answers", rule, left_out)


def _by_gold(
    study: Study, run: Run, requested_kind: Kind, questions: Sequence[Question], rejected_gold: Mapping[str, Set[str]]
) -> Relevance:
    matrix, counts = gold_matrix(study.corpus, run.hits.ordinals, questions)
    had_gold = counts > 0
    if rejected_gold:
        _remove_rejected_gold(study, rejected_gold, run, questions, matrix, counts)
    qrels = {
        pair: grade for pair, grade in _qrels_grades(study).items() if pair[1] not in rejected_gold.get(pair[0], ())
    }
    has_gold = columns_of(questions).has_gold
    judged = _without_relevant(qrels, questions) & ~has_gold
    rows = np.flatnonzero((counts > 0) | judged)
    bare = int((~has_gold & ~judged).sum())
    denied = int((had_gold & (counts == 0) & ~judged).sum())
    strangers = len(questions) - len(rows) - bare - denied
    reasons = {
        "no gold passages": bare,
        "gold passages that are not in the collection": strangers,
        "gold passages that people reject": denied,
    }
    left_out = {reason: count for reason, count in reasons.items() if count}
    run_questions = take(questions, rows)
    grades, ideal = _gold_grades(study, run, matrix[rows], counts[rows], rows, run_questions, qrels, rejected_gold)
    return Relevance(
        rows, matrix[rows], counts[rows], run_questions, "gold", requested_kind, None, left_out, grades, ideal
    )


def _remove_rejected_gold(
    study: Study,
    rejected_gold: Mapping[str, Set[str]],
    run: Run,
    questions: Sequence[Question],
    matrix: np.ndarray,
    counts: np.ndarray,
) -> None:
    """Remove gold passages that people rejected from the (q, k) matrix of gold hits and from the (q,)
    counts, in place.
    """
    held = study.corpus.ordinals({passage for passages in rejected_gold.values() for passage in passages})
    place = {id: row for row, id in enumerate(ids_of(questions)) if id in rejected_gold}
    for id, row in place.items():
        rows = {held[passage] for passage in rejected_gold[id] if passage in held}
        counts[row] -= len(rows)
        matrix[row] &= ~np.isin(run.hits.ordinals[row], sorted(rows))


def _without_relevant(qrels: Mapping[tuple[str, str], int], questions: Sequence[Question]) -> np.ndarray:
    """Return the questions that were judged but have no relevant passage, (q,) bool."""
    best: dict[str, int] = {}
    for (id, _), grade in qrels.items():
        best[id] = max(grade, best.get(id, grade))
    return np.array([best.get(id, 1) <= 0 for id in ids_of(questions)], dtype=bool)


def _gold_grades(
    study: Study,
    run: Run,
    is_gold: np.ndarray,
    counts: np.ndarray,
    rows: np.ndarray,
    questions: Sequence[Question],
    qrels: Mapping[tuple[str, str], int],
    rejected_gold: Mapping[str, Set[str]],
) -> tuple[np.ndarray, np.ndarray]:
    """Return `grades` and `ideal` for relevance by gold, with the grades of imported qrels, or else 1."""
    ideal = (np.arange(counts.max(initial=0)) < counts[:, None]).astype(np.int16)
    grades = is_gold.astype(np.int16)
    known = {pair: grade for pair, grade in qrels.items() if grade > 1}
    graded_ids = {id for id, _ in known}
    graded = [i for i, id in enumerate(ids_of(questions)) if id in graded_ids] if graded_ids else []
    graded = [i for i in graded if any((questions[i].id, p) in known for p in questions[i].gold)]
    hits = np.asarray(run.hits.ordinals)
    in_corpus = study.corpus.ordinals({passage for i in graded for passage in questions[i].gold})
    for i in graded:
        of_passage = {
            in_corpus[passage]: known.get((questions[i].id, passage), 1)
            for passage in questions[i].gold
            if passage in in_corpus and passage not in rejected_gold.get(questions[i].id, ())
        }
        grades[i], ideal[i] = _row_of(of_passage, hits[rows[i]], ideal.shape[1])
    return grades, ideal


def _qrels_grades(study: Study) -> dict[tuple[str, str], int]:
    """Return the grade of each pair in the imported qrels, clipped to the largest int16."""
    largest = np.iinfo(np.int16).max
    return {pair: min(grade, largest) for pair, grade in GoldMatches(study.labels_path).grades().items()}


def _row_of(grade_of: Mapping[int, int], hits: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the grades of one question's hits, and the grades of all its relevant passages in descending order, padded
    to `width`.
    """
    grades = np.array([grade_of.get(row, 0) for row in hits.tolist()], dtype=np.int16)
    ideal = np.zeros(width, dtype=np.int16)
    best = sorted((grade for grade in grade_of.values() if grade > 0), reverse=True)
    ideal[: len(best)] = best
    return grades, ideal


def _by_labels(study: Study, run: Run, questions: Sequence[Question]) -> Relevance:
    """Return relevance by gold, corrected by settled labels. A pair on which people disagree counts as not judged and
    not relevant.
    """
    ids = ids_of(questions)
    of_question: dict[str, dict[str, int]] = {id: {} for id in ids}
    qrels = _qrels_grades(study)
    for (question_id, passage), grade in qrels.items():
        if question_id in of_question:
            of_question[question_id][passage] = max(grade, 0)
    for pair in Labels(study.labels_path).corrected_relevance(of_question):
        if pair.relevance == "open":
            of_question[pair.question].pop(pair.passage, None)
        else:
            positive = pair.relevance == "positive"
            grade = max(qrels.get((pair.question, pair.passage), 1), 1) if positive else 0
            of_question[pair.question][pair.passage] = grade
    in_corpus = study.corpus.ordinals({passage for pairs in of_question.values() for passage in pairs})
    judgements = [
        {in_corpus[passage]: grade for passage, grade in of_question[id].items() if passage in in_corpus} for id in ids
    ]
    counts = np.array([sum(grade > 0 for grade in pairs.values()) for pairs in judgements], dtype=np.int64)
    rows = np.flatnonzero((counts > 0) | _without_relevant(qrels, questions))
    hits = np.asarray(run.hits.ordinals)
    grades = np.zeros((len(rows), hits.shape[1]), dtype=np.int16)
    ideal = np.zeros((len(rows), counts.max(initial=0)), dtype=np.int16)
    judged = np.zeros(grades.shape, dtype=bool)
    for i, row in enumerate(rows.tolist()):
        grades[i], ideal[i] = _row_of(judgements[row], hits[row], ideal.shape[1])
        judged[i] = [each in judgements[row] for each in hits[row].tolist()]
    without = len(questions) - len(rows)
    left_out = {"no passage in the collection is gold or labelled positive": without} if without else {}
    run_questions = take(questions, rows)
    return Relevance(
        rows, grades > 0, counts[rows], run_questions, "labels", "labels", None, left_out, grades, ideal, judged
    )
