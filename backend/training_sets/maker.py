"""The pairs of some questions at a time: everything that is known of their passages, gathered and put together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from backend.training_sets.assembling import Evidence, assemble
from backend.training_sets.inputs import Inputs
from backend.training_sets.mining import Candidate, Drawer, distant, from_runs, scores_in_runs, with_answers
from backend.training_sets.pairs import Pair
from backend.training_sets.request import SetRequest
from db.records import Question

if TYPE_CHECKING:
    from backend.core.study import Study


class Maker:
    """Makes the pairs of some questions."""

    def __init__(self, study: Study, request: SetRequest, inputs: Inputs):
        self.study, self.request, self.inputs = study, request, inputs
        self.policy, self.thresholds = request.cleaning, request.thresholds
        self.drawer = Drawer.over(study, inputs.questions, request.seed, request.other_gold > 0)
        self._bm25 = None

    def pairs(self, ids: Sequence[str]) -> Iterator[tuple[Question, list[Pair], str | None]]:
        """(question, its pairs, why it cannot train: None where it can) of each."""
        request, corpus = self.request, self.study.corpus
        questions = self.study.questions.some(ids)
        people = {id: self.inputs.labels.get(id, {}) for id in ids}
        named = {passage for question in questions for passage in (*question.gold, *people[question.id])}
        rows = corpus.ordinals(named) if named else {}
        labels = {
            id: {rows[passage]: label for passage, label in held.items() if passage in rows}
            for id, held in people.items()
        }
        golds = [[rows[passage] for passage in question.gold if passage in rows] for question in questions]
        unused = [set() if "gold" in request.positives else set(gold) for gold in golds]
        golds = golds if "gold" in request.positives else [[] for _ in golds]
        best = self._distant(questions, golds, labels)
        mined = from_runs(self.inputs.runs, questions, request.first, request.last, corpus, request.rule)
        easy = self._easy(questions, golds, best, labels, mined)
        scored = self.inputs.scores.of(ids) if self.inputs.scores else {}
        names = self._names(golds, best, mined, easy, rows)
        for place, question in enumerate(questions):
            candidates = mined[place] + easy[place]
            known = (
                set(golds[place])
                | ({best[place]} - {None})
                | {o for o, label in labels[question.id].items() if label == "positive"}
            )
            listed, floors = (
                scores_in_runs(self.inputs.runs, question.id, known) if self.thresholds.margin is not None else ({}, {})
            )
            probabilities = scored.get(question.id, {})
            ordinals = {each.ordinal for each in candidates} | known
            evidence = Evidence(
                golds[place],
                unused[place] - {best[place]},
                best[place],
                candidates,
                labels[question.id],
                {o: probabilities[names[o]] for o in ordinals if names[o] in probabilities},
                names,
                listed,
                floors,
            )
            yield (
                question,
                *assemble(question.id, evidence, self.policy, self.thresholds, "cross_encoder" in request.positives),
            )

    def _distant(
        self, questions: Sequence[Question], golds: Sequence[Sequence[int]], labels: Mapping[str, Mapping[int, str]]
    ) -> list[int | None]:
        """BM25's passage with an answer for the questions that have no other positive."""
        if "distant" not in self.request.positives:
            return [None] * len(questions)
        bare = [
            question
            for question, gold in zip(questions, golds, strict=True)
            if not gold and "positive" not in labels[question.id].values()
        ]
        if bare and self._bm25 is None:
            from backend.retrieval.bm25 import BM25

            self._bm25 = BM25(self.study)
        denied = {id: held.keys() for id, held in labels.items()}
        found = distant(self._bm25, self.study.corpus, bare, self.request.rule, denied) if bare else []
        by_id = {question.id: ordinal for question, ordinal in zip(bare, found, strict=True)}
        return [by_id.get(question.id) for question in questions]

    def _easy(self, questions, golds, best, labels, mined) -> list[list[Candidate]]:
        """Drawn negatives, none of them known, mined or judged."""
        if not self.request.random and not self.request.other_gold:
            return [[] for _ in questions]
        drawn = []
        for place, question in enumerate(questions):
            taken = {each.ordinal for each in mined[place]}.union(
                golds[place], {best[place]} - {None}, labels[question.id]
            )
            others = self.drawer.other_gold(question, self.request.other_gold, taken)
            drawn.append(
                others + self.drawer.random(question, self.request.random, taken | {each.ordinal for each in others})
            )
        return with_answers(questions, drawn, self.study.corpus, self.request.rule)

    def _names(self, golds, best, mined, easy, rows: Mapping[str, int]) -> dict[int, str]:
        """The id of every passage of these questions, by ordinal."""
        names = {ordinal: passage for passage, ordinal in rows.items()}
        wanted = {ordinal for gold in golds for ordinal in gold} | {ordinal for ordinal in best if ordinal is not None}
        wanted |= {each.ordinal for row in (*mined, *easy) for each in row}
        ordinals = sorted(wanted - names.keys())
        return names | {
            ordinal: passage.id for ordinal, passage in zip(ordinals, self.study.corpus.passages(ordinals), strict=True)
        }
