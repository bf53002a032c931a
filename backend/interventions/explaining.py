"""Explain misses by intervention: apply each edit to the gold passage and to its placebos, encode the edited texts in one
batch, and rank them in the stored index.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from blindspot.backend.core.study import Study
from blindspot.backend.data.importing.gold import find_ordinals
from blindspot.backend.interventions.edit_ranks import PASSAGES_ABOVE, EditAttempt, EditRanks
from blindspot.backend.interventions.edits import (
    DOUBT,
    EDITS,
    TOGETHER,
    EditedMiss,
    MissedQuestion,
    applicable_edits,
    apply,
    cut_off_pieces,
    edit_pairs,
    other_statements,
)
from blindspot.backend.interventions.misses import Wordings, shuffle_questions
from blindspot.backend.interventions.placebos import PLACEBOS, edited_placebos, placebos
from blindspot.backend.interventions.searching import Attempt, PassageRank, ranks_of_passages
from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.retrieval.question_vectors import question_vectors
from blindspot.backend.text.answers import DEFAULT_RULE
from blindspot.db.errors import Missing
from blindspot.db.records import Passage, Question

PER_BLOCK = 64  # misses whose texts are encoded in one batch, and which one pass over the index ranks
SHARE_BEATEN = 0.75
"""If after an edit the gold passage ranks above at least this share of a miss's placebos, the edit names a cause. If
the answer's sentence beats this share of other sentences, the passage counts as stating what the question asks.
"""
CONTROLS, FEWEST_CONTROLS = 30, 10
"""The rule for doubtful gold is first tried on found questions: how many of them are drawn, and how many are needed
before the rule may name a cause.
"""
FOUND_RANK = 5  # a question whose gold passage has this rank or a better one is found
FEW_PLACEBOS = 3  # placebos of an edit that does not mend the miss


@dataclass(frozen=True, slots=True)
class TriedEdit:
    """The result of an edit that applied to a miss, or of two edits applied together.

    Attributes:
        rank, score: of the gold passage afterwards; rank 0 where it no longer counts as gold.
        size: the tokens that the edit changes.
        placebos: where the same edit brings each placebo; None where it finds nothing to change in it.
        counted: the title of the passage that counts as gold now.
    """

    name: str
    rank: int
    score: float
    size: int
    question: str
    title: str
    text: str
    removed: int
    placebos: tuple[PassageRank | None, ...]
    counted: str | None = None

    @property
    def cause(self) -> str:
        return EDITS[self.name].cause

    @property
    def placebos_beaten(self) -> int:
        """The number of placebos that have a lower score than the gold passage after the edit."""
        return sum(each is None or self.score > each.score for each in self.placebos)

    @property
    def beats_placebos(self) -> bool:
        """Whether the gold passage scores higher than at least the share SHARE_BEATEN of the placebos; False if there
        are no placebos. For the edit DOUBT it is the opposite: the gold label is doubtful if its sentence does not
        score higher than that share of sentences that do not answer the question.
        """
        if self.name == DOUBT:
            return self.placebos_beaten < SHARE_BEATEN * len(self.placebos)
        return bool(self.placebos) and self.placebos_beaten >= SHARE_BEATEN * len(self.placebos)

    def lifted(self, k: int) -> int:
        """Return how many placebos the edit brings into the top k."""
        return sum(each is not None and each.rank <= k for each in self.placebos)


@dataclass(frozen=True, slots=True)
class ExplainedMiss:
    """A miss and the results of its edits, smallest edit first. rank: the rank of the unedited gold passage. winner:
    the title at rank 1. pairs: results of two edits together, tried only if no single edit brings the gold passage into
    the top k. A larger pair is kept only if it reaches a better rank.
    """

    question: Question
    gold: Passage
    rank: int
    winner: str
    tried: tuple[TriedEdit, ...]
    pairs: tuple[TriedEdit, ...] = ()

    def mending(self, k: int) -> list[TriedEdit]:
        """Return the edits that bring a gold passage into the top k, smallest first. Of edits with equal size, those
        that add no words come first, then those with a higher score. If there is no such edit, return pairs of edits
        that do.
        """
        alone = [each for each in self.tried if each.rank <= k]
        if not alone:
            return [each for each in self.pairs if each.rank <= k]
        return sorted(alone, key=lambda each: (each.size, EDITS[each.name].invents, -each.score))

    def named(self, k: int) -> list[TriedEdit]:
        """Return the edits that name a cause: those of `mending` that beat their placebos. If this is a pair, return
        its two edits, first the one that reaches the better rank on its own.
        """
        found = [each for each in self.mending(k) if each.beats_placebos]
        if found and TOGETHER in found[0].name:
            parts = found[0].name.split(TOGETHER)
            return sorted(
                (each for each in self.tried if each.name in parts), key=lambda each: (each.rank, -each.score)
            )
        return found

    def cause(self, k: int) -> str | None:
        """Return the cause named by the smallest of these edits; None if no edit names a cause."""
        return next((each.cause for each in self.named(k)), None)


class MissExplainer:
    """Explains misses of the encoder `name` of a study. Raises Missing if the encoder has no dense index.

    Args:
        dense: the open index of this encoder, if the caller has it.
        placebos: of each miss. seed: of their draw. k: an edit that does not bring the gold passage into the top k cannot
            name a cause, so it gets FEW_PLACEBOS placebos, whose mean share is as unbiased; None gives every edit all
            of them.
    """

    def __init__(
        self,
        study: Study,
        name: str,
        rule: str = DEFAULT_RULE,
        device: str | None = None,
        dense: Dense | None = None,
        placebos: int = PLACEBOS,
        seed: int = 0,
        k: int | None = None,
    ):
        self.placebos, self.seed, self.k = placebos, seed, k
        self.study, self.rule, self.dense = study, rule, dense or Dense(study, name, device)
        self._ranks = EditRanks(study, self.dense)

    @cached_property
    def wordings(self) -> Wordings:
        return Wordings.of(self.study.questions.all())

    @cached_property
    def doubted_controls(self) -> tuple[int, int]:
        """Check the rule for doubtful gold on questions that the encoder finds, whose gold passages it therefore
        understands. Return the number of these questions whose gold the rule doubts, and the number of questions
        checked.
        """
        drawn = shuffle_questions([each for each in self.study.questions.all() if each.gold], self.seed)[: 4 * CONTROLS]
        present = find_ordinals(self.study.corpus, tuple({id for each in drawn for id in each.gold}))
        drawn = [each for each in drawn if any(id in present for id in each.gold)]
        if not drawn:
            return 0, 0
        vectors = question_vectors(self.study, self.dense, [each.text for each in drawn])
        found = [each for each in self._load_misses(drawn, vectors) if each.rank <= FOUND_RANK][:CONTROLS]
        own = [(each, one) for each in found if (one := apply(DOUBT, each.miss)) is not None]
        tries = [
            [
                EditAttempt(one, each.miss.gold, each.row, each.gold_rows),
                *self._placebo_attempts(each, {DOUBT: 0})[DOUBT],
            ]
            for each, one in own
        ]
        asked = [one for of_question in tries for one in of_question if one is not None]
        reached_by = dict(zip(map(id, asked), self._ranks.of(asked), strict=True))
        doubted = 0
        for (each, one), of_question in zip(own, tries, strict=True):
            places = [None if made is None else reached_by[id(made)] for made in of_question]
            doubted += _tried_edit(each.miss, DOUBT, one, places).beats_placebos
        return doubted, len(found)

    @property
    def can_doubt(self) -> bool:
        """Return whether doubtful gold may be named as a cause. The rule must doubt at most the share 1 - SHARE_BEATEN
        of the questions that the encoder finds.
        """
        doubted, found = self.doubted_controls
        return found >= FEWEST_CONTROLS and doubted <= (1 - SHARE_BEATEN) * found

    def explain(self, questions: Sequence[Question]) -> Iterator[list[ExplainedMiss]]:
        """Yield the questions' explanations, a block at a time. Ranks that are already stored are not computed again.

        Raises Missing for a question without a gold passage in the collection.
        """
        for start in range(0, len(questions), PER_BLOCK):
            yield self._block(questions[start : start + PER_BLOCK])

    def _block(self, questions: Sequence[Question]) -> list[ExplainedMiss]:
        vectors = question_vectors(self.study, self.dense, [question.text for question in questions])
        found = self._load_misses(questions, vectors)
        own = [self._gold_attempts(each) for each in found]
        asked = [each for of_miss in own for each in of_miss.values()]
        reached_by = dict(zip(map(id, asked), self._ranks.of(asked), strict=True))
        both = [
            self._pair_attempts(
                each, {name: reached_by[id(one)].rank for name, one in of_miss.items() if name != DOUBT}
            )
            for each, of_miss in zip(found, own, strict=True)
        ]
        asked = [each for of_miss in both for each in of_miss.values()]
        reached_by |= dict(zip(map(id, asked), self._ranks.of(asked), strict=True))
        for of_miss, of_pairs in zip(own, both, strict=True):
            reach = {name: (each, reached_by[id(each)].rank) for name, each in of_pairs.items()}
            of_miss |= _pairs_that_improve(
                {name: of_pair for name, of_pair in reach.items() if of_pair[1] <= (self.k or of_pair[1])}
            )
        controls = [
            self._placebo_attempts(each, {name: reached_by[id(one)].rank for name, one in of_miss.items()})
            for each, of_miss in zip(found, own, strict=True)
        ]
        asked = [one for of_miss in controls for made in of_miss.values() for one in made if one is not None]
        reached_by |= dict(zip(map(id, asked), self._ranks.of(asked), strict=True))
        explained = []
        for each, of_miss, of_placebos in zip(found, own, controls, strict=True):
            tried = [
                _tried_edit(
                    each.miss,
                    name,
                    one.edited,
                    [
                        reached_by[id(one)],
                        *(None if other is None else reached_by[id(other)] for other in of_placebos[name]),
                    ],
                )
                for name, one in of_miss.items()
                if name in of_placebos
            ]
            explained.append(
                ExplainedMiss(
                    each.miss.question,
                    each.miss.gold,
                    each.rank,
                    each.miss.above[0][1].title if each.miss.above else each.miss.gold.title,
                    tuple(one for one in tried if TOGETHER not in one.name and (one.rank or one.beats_placebos)),
                    tuple(one for one in tried if TOGETHER in one.name),
                )
            )
        return explained

    def _load_misses(self, questions: Sequence[Question], vectors: np.ndarray) -> list[_LoadedMiss]:
        """Return for each question the data that the edits need."""
        dense, corpus = self.dense, self.study.corpus
        hits = dense.search_vectors(vectors, min(PASSAGES_ABOVE, len(corpus)))
        misses, before, rows_of = [], [], []
        for number, question in enumerate(questions):
            rows = sorted(set(find_ordinals(corpus, question.gold).values()))
            if not rows:
                raise Missing(f"question {question.id!r} has no gold passage in this collection")
            scores = dense.score_vectors(vectors[number : number + 1], np.array([rows], np.int32))[0]
            best = rows[int(scores.argmax())]
            above = [
                int(row)
                for row, score in zip(hits.ordinals[number], hits.scores[number], strict=True)
                if row >= 0 and score > scores.max() and int(row) not in rows
            ]
            beside = [row for row in (best - 1, best + 1) if 0 <= row < len(corpus)]
            gold, *passages = corpus.passages([best, *beside, *above])
            same = {row: one for row, one in zip(beside, passages, strict=False) if one.title == gold.title}
            miss = MissedQuestion(
                question,
                gold,
                tuple(zip(above, passages[len(beside) :], strict=True)),
                self.wordings.plain(question),
                self.wordings.stand_in(question),
                self.rule,
            )
            misses.append(replace(miss, cut=cut_off_pieces(miss, same.get(best - 1), same.get(best + 1))))
            rows_of.append((best, rows))
            before.append(Attempt(number, np.asarray(dense.vectors[best]), rows))
        present = ranks_of_passages(dense.vectors, vectors, before, self._ranks.similarity)
        return [
            _LoadedMiss(miss, best, rows, now.rank)
            for miss, (best, rows), now in zip(misses, rows_of, present, strict=True)
        ]

    def _gold_attempts(self, miss: _LoadedMiss) -> dict[str, EditAttempt]:
        """Return the edits that apply to the gold passage, by name."""
        return {
            name: EditAttempt(own, miss.miss.gold, miss.row, miss.gold_rows)
            for name, own in applicable_edits(miss.miss).items()
            if name != DOUBT or self.can_doubt
        }

    def _pair_attempts(self, loaded_miss: _LoadedMiss, ranks: Mapping[str, int]) -> dict[str, EditAttempt]:
        """Return pairs of edits that each improve the gold passage's rank; {} if a single edit already brings it into
        the top k.
        """
        if min(ranks.values(), default=1) <= (self.k or 1):
            return {}
        closer = [name for name, rank in ranks.items() if rank < loaded_miss.rank]
        made = edit_pairs(closer, loaded_miss.miss)
        return {
            name: EditAttempt(own, loaded_miss.miss.gold, loaded_miss.row, loaded_miss.gold_rows)
            for name, own in made.items()
        }

    def _placebo_attempts(
        self, loaded_miss: _LoadedMiss, ranks: Mapping[str, int]
    ) -> dict[str, list[EditAttempt | None]]:
        """Return the same edits applied to the miss's placebos. ranks: the rank of the gold passage after each edit."""
        miss, answers = loaded_miss.miss, self.wordings.answers.get(loaded_miss.miss.question.relation, ())
        drawn = placebos(miss, self.study.corpus, loaded_miss.gold_rows, answers, self.placebos, self.seed)
        tries = {}
        for name, rank in ranks.items():
            given = drawn if self.k is None or rank <= self.k or name == DOUBT else drawn[:FEW_PLACEBOS]
            tries[name] = [
                None
                if other is None
                else EditAttempt(other, placebo.passage, placebo.row, [*loaded_miss.gold_rows, placebo.row])
                for other, placebo in zip(edited_placebos(name, miss, given), given, strict=True)
            ]
            if name == DOUBT:
                tries[name] += [
                    EditAttempt(other, miss.gold, loaded_miss.row, loaded_miss.gold_rows)
                    for other in other_statements(miss)
                ]
        return tries


@dataclass(frozen=True, slots=True)
class _LoadedMiss:
    """A miss, with the row of its best gold passage, the rows of all its gold passages, and the rank of the
    best one.
    """

    miss: MissedQuestion
    row: int
    gold_rows: list[int]
    rank: int


def _pairs_that_improve(ranked_pairs: Mapping[str, tuple[EditAttempt, int]]) -> dict[str, EditAttempt]:
    """Return the pairs that reach a better rank than every smaller pair. ranked_pairs: maps each pair to its edit and
    rank, smallest first.
    """
    kept, best = {}, None
    for name, (made, rank) in ranked_pairs.items():
        if best is None or rank < best:
            kept[name], best = made, rank
    return kept


def _tried_edit(miss: MissedQuestion, name: str, edited: EditedMiss, ranks: Sequence[PassageRank | None]) -> TriedEdit:
    own, *others = ranks
    assert own is not None
    titles = dict(miss.above)
    return TriedEdit(
        name,
        0 if name == DOUBT else own.rank,
        own.score,
        edited.changed,
        edited.question,
        edited.passage.title,
        edited.passage.text,
        len(edited.removed),
        tuple(others),
        None if edited.new_gold is None else titles[edited.new_gold].title,
    )
