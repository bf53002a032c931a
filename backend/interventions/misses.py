"""Select the misses of a dense run, and collect the data that the edits need for each miss."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from blindspot.analysis.accuracy import first_hit, success_from_ranks
from blindspot.backend.core.gold import gold_matrix
from blindspot.backend.core.runs import Run
from blindspot.backend.core.sampling import text_key
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.miss_facts import name_words, pattern
from blindspot.db.errors import BadInput
from blindspot.db.records import Question

TIMES_AS_FREQUENT = 10  # a stand-in is mentioned at least this many times as often as the subject it replaces


@dataclass(frozen=True, slots=True)
class Wordings:
    """Wordings, subjects and answers of a study's questions, by relation.

    Attributes:
        patterns: relation -> its most frequent pattern in training, with [X] for the subject.
        subjects: relation -> (subject, mentions), most mentioned first.
        answers: relation -> the answers of each of its questions; None is the relation of the questions without one.
    """

    patterns: Mapping[str, str]
    subjects: Mapping[str, Sequence[tuple[str, int]]]
    answers: Mapping[str | None, Sequence[tuple[str, ...]]]

    @classmethod
    def of(cls, questions: Iterable[Question]) -> Wordings:
        patterns: dict[str, Counter[str]] = defaultdict(Counter)
        mentions: dict[str, dict[str, int]] = defaultdict(dict)
        answers: dict[str | None, list[tuple[str, ...]]] = defaultdict(list)
        for question in questions:
            answers[question.relation].append(tuple(question.answers))
            if question.relation is None or not question.subject:
                continue
            if question.split == "train" and (wording := pattern(question)):
                patterns[question.relation][wording] += 1
            if question.frequency is not None:
                mentions[question.relation][question.subject] = question.frequency
        return cls(
            {relation: min(found, key=lambda each: (-found[each], each)) for relation, found in patterns.items()},
            {
                relation: sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))
                for relation, found in mentions.items()
            },
            answers,
        )

    def plain(self, question: Question) -> str | None:
        """Return the question in the most frequent wording (pattern) of its relation's training questions; None if it
        is unknown.
        """
        if question.relation is None or question.relation not in self.patterns or not question.subject:
            return None
        return self.patterns[question.relation].replace("[X]", question.subject)

    def stand_in(self, question: Question) -> str | None:
        """Return the most frequently mentioned subject of the relation that shares no word with the question's subject.
        None if it is less than TIMES_AS_FREQUENT times as frequent as that subject, or if frequencies are unknown.
        """
        if question.relation is None or not question.subject or question.frequency is None:
            return None
        own = set(name_words(question.subject))
        for name, mentions in self.subjects.get(question.relation, ()):
            if own.isdisjoint(name_words(name)):
                return name if mentions >= TIMES_AS_FREQUENT * max(1, question.frequency) else None
        return None


def dense_run(study: Study, name: str) -> Run:
    """Return a run, and check that it is a dense run of an encoder whose index is in the study. Raises BadInput
    otherwise.
    """
    run = study.run(name)
    retriever = run.manifest.get("retriever")
    if run.manifest.get("kind") != "dense" or retriever not in study.parts("indexes"):
        raise BadInput(
            f"run {name!r} is not of an encoder with an index in this study, so no edited passage can be ranked; "
            "name a dense run"
        )
    return run


def missed_questions(study: Study, run: Run, k: int, found_by_run: Run | None = None) -> list[Question]:
    """Return the questions whose gold passages are all outside the run's top k, in the run's order.

    Questions without a gold passage in the collection are left out.

    Args:
        found_by_run: only questions for which this run has a gold passage in its top k.

    Raises BadInput if a run has fewer than k hits per question.
    """
    for each in filter(None, (run, found_by_run)):
        if not 1 <= k <= each.hits.k:
            raise BadInput(f"k must be from 1 to {each.hits.k}, the hits per question of run {each.name!r}, not {k}")
    questions = study.questions.with_ids(run.question_ids)
    found, n_gold = _found_gold(study, run, questions, k)
    wanted = (n_gold > 0) & ~found
    if found_by_run is not None:
        rows = {id: row for row, id in enumerate(found_by_run.question_ids)}
        shared = [number for number, question in enumerate(questions) if question.id in rows]
        both = [questions[number] for number in shared]
        ordinals = np.asarray(found_by_run.hits.ordinals)[[rows[question.id] for question in both]]
        is_gold, _ = gold_matrix(study.corpus, ordinals[:, :k], both)
        others = np.zeros(len(questions), bool)
        others[shared] = is_gold.any(axis=1)
        wanted &= others
    return [question for question, is_missed in zip(questions, wanted, strict=True) if is_missed]


def _found_gold(study: Study, run: Run, questions: Sequence[Question], k: int) -> tuple[np.ndarray, np.ndarray]:
    is_gold, n_gold = gold_matrix(study.corpus, np.asarray(run.hits.ordinals), questions)
    return success_from_ranks(first_hit(is_gold), k), n_gold


def shuffle_questions(questions: Sequence[Question], seed: int) -> list[Question]:
    """Return the questions in a random order that depends only on their ids and the seed, so that every prefix is a
    random sample.
    """
    return sorted(questions, key=lambda question: text_key(f"{seed}\0{question.id}"))
