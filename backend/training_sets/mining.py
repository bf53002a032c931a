"""Mine candidate negatives for a block of questions: from runs at chosen ranks, at random, and from other questions'
gold passages. Also finds positives by distant supervision with BM25.

Libraries' own miners are not used, because they re-sort hits, normalise scores and lose passage ids.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from blindspot.backend.core.manifest import read_manifest
from blindspot.backend.core.runs import Run
from blindspot.backend.core.study import Study
from blindspot.backend.data.leaks import fact_key
from blindspot.backend.text.answers import match_run
from blindspot.backend.training_sets.training_set import Source
from blindspot.db.errors import Missing
from blindspot.db.records import Question

DISTANT_DEPTH = 100
"""Number of BM25 ranks that are searched for a passage with an answer (DPR, section 4.2)."""


class NegativeCandidate(NamedTuple):
    """A candidate negative. run, rank, score: None if the passage was drawn at random."""

    ordinal: int
    source: Source
    run: str | None = None
    rank: int | None = None
    score: float | None = None
    answer: bool | None = None


class MinedPassages(NamedTuple):
    """The passages that runs mined for some questions, by question, then rank, then passage row. (n,) each.

    question_indexes: of the questions. runs: of the run. answers: 1, 0, or -1 for a question without answers.
    """

    question_indexes: np.ndarray
    ordinals: np.ndarray
    runs: np.ndarray
    ranks: np.ndarray
    scores: np.ndarray
    answers: np.ndarray


def mine_passages(
    runs: Sequence[Run], questions: Sequence[Question], first_rank: int, last_rank: int, corpus, rule: str
) -> MinedPassages:
    """Return the questions' passages at ranks `first_rank` to `last_rank` (from 1).

    If several runs contain a passage, the run with the best rank is used, and of equal ranks the first run.
    """
    parts = [MinedPassages(*(np.zeros(0, np.float32 if name == "scores" else int) for name in MinedPassages._fields))]
    for number, run in enumerate(runs):
        rows = [run.row(question.id) for question in questions]
        known = [place for place, row in enumerate(rows) if row is not None]
        if not known:
            continue
        run_rows, asked = np.array([rows[place] for place in known]), [questions[place] for place in known]
        ordinals = np.asarray(run.hits.ordinals[run_rows, first_rank - 1 : last_rank])
        scores = np.asarray(run.hits.scores[run_rows, first_rank - 1 : last_rank])
        holds = _answer_matches(run, run_rows, ordinals, asked, first_rank, last_rank, corpus, rule)
        matched = np.array([bool(question.answers) for question in asked])
        row, column = np.nonzero(ordinals >= 0)
        parts.append(
            MinedPassages(
                np.array(known)[row],
                ordinals[row, column].astype(int),
                np.full(len(row), number),
                first_rank + column,
                scores[row, column],
                np.where(matched[row], holds[row, column].astype(int), -1),
            )
        )
    every = MinedPassages(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    best = np.lexsort((every.runs, every.ranks, every.ordinals, every.question_indexes))
    places, ordinals = every.question_indexes[best], every.ordinals[best]
    again = (places[1:] == places[:-1]) & (ordinals[1:] == ordinals[:-1])
    best = best[np.append(True, ~again)[: len(best)]]
    order = best[np.lexsort((every.ordinals[best], every.ranks[best], every.question_indexes[best]))]
    return MinedPassages(*(column[order] for column in every))


def candidates_by_question(
    mined_passages: MinedPassages, question_indexes: Sequence[int], runs: Sequence[str], questions: int
) -> list[list[NegativeCandidate]]:
    """Return the mined passages of the questions at these places as lists, empty for all other questions."""
    found: list[list[NegativeCandidate]] = [[] for _ in range(questions)]
    rows = np.flatnonzero(np.isin(mined_passages.question_indexes, np.asarray(question_indexes, int)))
    for place, ordinal, run, rank, score, answer in zip(
        *(column[rows].tolist() for column in mined_passages), strict=True
    ):
        candidate = NegativeCandidate(ordinal, "run", runs[run], rank, score, None if answer < 0 else bool(answer))
        found[place].append(candidate)
    return found


def _answer_matches(
    run: Run,
    rows: np.ndarray,
    ordinals: np.ndarray,
    questions: Sequence[Question],
    first_rank: int,
    last_rank: int,
    corpus,
    rule: str,
) -> np.ndarray:
    try:
        return np.asarray(run.answers(rule)[rows, first_rank - 1 : last_rank])
    except Missing:
        return match_run(corpus, questions, ordinals, rule)


def run_scores(
    runs: Sequence[Run], question: str, ordinals: AbstractSet[int]
) -> tuple[dict[str, dict[int, float]], dict[str, float]]:
    """Return, for each run, the scores of these passages at any rank, and the run's last score for the question."""
    found: dict[str, dict[int, float]] = {}
    floors: dict[str, float] = {}
    for run in runs:
        if (row := run.row(question)) is None:
            continue
        listed, scores = np.asarray(run.hits.ordinals[row]), np.asarray(run.hits.scores[row])
        places = np.flatnonzero(np.isin(listed, list(ordinals)))
        found[run.name] = dict(zip(listed[places].tolist(), scores[places].tolist(), strict=True))
        if (listed >= 0).any():
            floors[run.name] = float(scores[listed >= 0][-1])
    return found, floors


def ranks_by_cosine(study: Study, run: Run) -> bool:
    """Return whether the scores of a run are cosines: the similarity is cosine, or dot product with vectors of unit
    length.
    """
    if run.manifest.get("similarity") == "cosine":
        return True
    index: dict[str, Any] = read_manifest(study.path("indexes", str(run.manifest.get("retriever")))) or {}
    same_model = index.get("model_hash") is not None and index.get("model_hash") == run.manifest.get("model_hash")
    return run.manifest.get("similarity") == "dot" and same_model and index.get("unit_length") is True


@dataclass(slots=True)
class EasyNegativeSampler:
    """Draws easy negatives: random passages, and gold passages of other questions.

    A question's draw depends only on the seed and the question's id, not on the rest of the set.

    golds, facts: (g,) for each question that may train and has gold: its first gold passage, and the fact that it asks
    for.
    """

    passages: int
    seed: int
    golds: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    facts: Sequence[bytes | None] = ()

    @classmethod
    def for_questions(cls, study: Study, ids: Sequence[str], seed: int, with_gold: bool) -> EasyNegativeSampler:
        """Return a sampler over the study's passages. `with_gold` also reads the gold passages of other questions."""
        if not with_gold:
            return cls(len(study.corpus), seed)
        golds: list[int] = []
        facts: list[bytes | None] = []
        for start in range(0, len(ids), 1000):
            block = study.questions.with_ids(ids[start : start + 1000])
            known = study.corpus.ordinals({question.gold[0] for question in block if question.gold})
            for question in block:
                if question.gold and question.gold[0] in known:
                    golds.append(known[question.gold[0]])
                    facts.append(_fact_of(question))
        return cls(len(study.corpus), seed, np.array(golds, np.int32), facts)

    def random(self, question: Question, count: int, excluded_rows: AbstractSet[int]) -> list[NegativeCandidate]:
        """Draw `count` different passages from the whole collection without `excluded_rows`, or fewer if there are not
        enough.
        """
        count = min(count, self.passages - len(excluded_rows))
        rows: dict[int, None] = {}
        rng = self._rng(question, "random")
        while len(rows) < count:
            rows.update(
                dict.fromkeys(
                    integer
                    for integer in rng.integers(self.passages, size=2 * count).tolist()
                    if integer not in excluded_rows
                )
            )
        return [NegativeCandidate(ordinal, "random") for ordinal in list(rows)[:count]]

    def other_gold(self, question: Question, count: int, excluded_rows: AbstractSet[int]) -> list[NegativeCandidate]:
        """Draw `count` gold passages of questions about other facts, without `excluded_rows`, or fewer if there are not
        enough.
        """
        fact = _fact_of(question)
        rows: dict[int, None] = {}
        tried = (
            self._rng(question, "other_gold").integers(len(self.golds), size=20 * count + 100)
            if len(self.golds)
            else np.zeros(0, int)
        )
        for place in tried.tolist():
            if len(rows) == count:
                break
            if int(self.golds[place]) not in excluded_rows and (fact is None or self.facts[place] != fact):
                rows[int(self.golds[place])] = None
        return [NegativeCandidate(ordinal, "other_gold") for ordinal in rows]

    def _rng(self, question: Question, noun: str) -> np.random.Generator:
        key = hashlib.sha256(f"{self.seed}\0{noun}\0{question.id}".encode()).digest()
        return np.random.default_rng(int.from_bytes(key[:16], "little"))


def _fact_of(question: Question) -> bytes | None:
    return (
        None if question.relation is None or question.subject is None else fact_key(question.relation, question.subject)
    )


def match_answers(
    questions: Sequence[Question], candidates: Sequence[Sequence[NegativeCandidate]], corpus, rule: str
) -> list[list[NegativeCandidate]]:
    """Return the same candidates with a flag that states whether each contains an answer."""
    width = max((len(row) for row in candidates), default=0)
    ordinals = np.full((len(questions), width), -1, np.int32)
    for row, rows in zip(ordinals, candidates, strict=True):
        row[: len(rows)] = [each.ordinal for each in rows]
    holds = match_run(corpus, questions, ordinals, rule).tolist()
    return [
        [each._replace(answer=answer if question.answers else None) for each, answer in zip(drawn, row, strict=False)]
        for question, drawn, row in zip(questions, candidates, holds, strict=True)
    ]


def distant_positives(
    bm25,
    corpus,
    questions: Sequence[Question],
    rule: str,
    excluded_rows: Mapping[str, AbstractSet[int]],
    depth: int = DISTANT_DEPTH,
) -> list[int | None]:
    """Return, for each question, the highest BM25 passage that contains an answer, in the top `depth` (DPR, section
    4.2, appendix A).

    The query is the question followed by its first answer, or only the question if its answers are regular expressions.
    The result is None if no passage contains an answer, or if the question has no answers.

    Args:
        bm25: an object with `search(texts, k) -> Hits`.
        excluded_rows: for each question, the passages that people deny or disagree about.
    """
    with_answers = [question for question in questions if question.answers]
    if not with_answers:
        return [None] * len(questions)
    texts = [
        question.text if question.answer_rule == "regex" else f"{question.text} {question.answers[0]}"
        for question in with_answers
    ]
    ordinals = np.asarray(bm25.search(texts, depth).ordinals)
    holds = match_run(corpus, with_answers, ordinals, rule)
    positives: dict[str, int | None] = {}
    for question, row, matched in zip(with_answers, ordinals, holds, strict=True):
        good = (ordinal for ordinal in row[matched].tolist() if ordinal not in excluded_rows.get(question.id, ()))
        positives[question.id] = next(good, None)
    return [positives.get(question.id) for question in questions]
