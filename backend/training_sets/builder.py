"""Build a training set in blocks of some hundred questions. At the end the finished folder is renamed into place.

The same sources always give the same bytes in `pairs.parquet`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import atomic_folder, file_sha256, read_manifest, write_manifest
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.progress import Progress
from blindspot.backend.training_sets.assemble import NO_POSITIVE, QuestionEvidence, assemble
from blindspot.backend.training_sets.mining import (
    EasyNegativeSampler,
    MinedPassages,
    NegativeCandidate,
    candidates_by_question,
    distant_positives,
    match_answers,
    mine_passages,
    ranks_by_cosine,
    run_scores,
)
from blindspot.backend.training_sets.pair_columns import (
    KnownPositives,
    merge_tables,
    pairs_table,
    plain_pairs,
    sort_pairs,
)
from blindspot.backend.training_sets.sources import TrainingSetSources
from blindspot.backend.training_sets.spec import TrainingSetSpec
from blindspot.backend.training_sets.stats import SetStats, tally_pairs
from blindspot.backend.training_sets.training_set import LEFT_OUT, PAIRS, Pair, TrainingSet, as_table, schema
from blindspot.db.backup import sync_to_disk
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.records import Question

if TYPE_CHECKING:
    import pyarrow

    from blindspot.backend.core.study import Study
    from blindspot.backend.retrieval.bm25 import BM25


QUESTIONS_PER_BLOCK = 500


class NoTrainableQuestion(BadInput):
    """Raised if no question has a positive."""


@job("build training set")
def build(
    study: Study, name: str, runs: Sequence[str], progress: Progress | None = None, **settings: Any
) -> TrainingSet:
    """Build a training set from plain values, as in a job. The values are the fields of `TrainingSetSpec`.

    See `make_training_set`.
    """
    return make_training_set(study, TrainingSetSpec.from_values(name, runs, **settings), progress)


def make_training_set(study: Study, spec: TrainingSetSpec, progress: Progress | None = None) -> TrainingSet:
    """Build a training set.

    Raises:
        BadInput: invalid settings, or no question that can train.
        Missing: a run, model, index or split does not exist.
        Refused: the name is taken, the policy has no meaning on these scores, or another process builds this set.
    """
    scores = _open_scores(study, spec)
    spec.check(scores, cosine=scores is None and all(ranks_by_cosine(study, study.run(name)) for name in spec.runs))
    spec = spec.with_own_thresholds(study)
    folder = study.path("training_sets", spec.name)

    def refuse_existing() -> None:
        if read_manifest(folder) is not None:
            raise Refused(f"there is already a training set {spec.name!r}; sets do not change, so take another name")

    refuse_existing()
    sources = TrainingSetSources.read_sources(study, spec, scores, progress)
    started = time.monotonic()
    with study.lock_part(f"training_sets/{spec.name}", refuse_existing), atomic_folder(folder) as building:
        counts, left_out = _write_pairs(
            PairBuilder(study, spec, sources), building / PAIRS, sources.questions, progress
        )
        left_out = dict(sorted((sources.left_out | left_out).items()))
        if not counts.questions:
            raise NoTrainableQuestion(_no_trainable_question_message(spec, left_out))
        _write_lines(building / LEFT_OUT, ({"question": id, "reason": reason} for id, reason in left_out.items()))
        write_manifest(
            building,
            {
                "kind": "training set",
                "name": spec.name,
                "request": spec.as_dict(),
                "policy": spec.policy,
                "inputs": sources.about,
                "fingerprint": sources.fingerprint,
                "left_out": tally_pairs(left_out.values()),
                "counts": counts.as_json(),
                "sha256": {file: file_sha256(building / file) for file in (PAIRS, LEFT_OUT)},
                "seconds": round(time.monotonic() - started, 1),
            },
        )
    return TrainingSet.open(study, spec.name)


def _open_scores(study: Study, spec: TrainingSetSpec) -> ScoreStore | None:
    """Return the scores of the model, or None if no model is named. Raises Missing if there are no scores; the message
    names the commands that make them.
    """
    if spec.model is None:
        return None
    try:
        return ScoreStore.open(study, spec.model)
    except Missing as error:
        hint = spec.cleaning.definition.scores_help.format(model=spec.model)
        raise Missing(f"{error}; {hint}" if hint else str(error)) from None


def _no_trainable_question_message(spec: TrainingSetSpec, left_out: Mapping[str, str]) -> str:
    reasons = "; ".join(f"{count:,} left out: {reason}" for reason, count in tally_pairs(left_out.values()).items())
    return (
        f"no question can train ({reasons}). Positives come from gold (with the questions, or qrels), from people (a "
        "policy with labels), from BM25 (positives distant), from a cross-encoder or a judge; this set takes: "
        f"{', '.join(spec.positives) or 'none'}"
    )


def _write_pairs(
    builder: PairBuilder, path: Path, questions: Sequence[str], progress: Progress | None
) -> tuple[SetStats, dict[str, str]]:
    """Write the pairs, with one row group for each block of questions. Return their statistics, and for each question
    that was left out the reason.
    """
    import pyarrow.parquet as parquet

    counts, left_out = SetStats(), dict[str, str]()
    with parquet.ParquetWriter(path, schema(), compression="zstd") as writer:
        for start in range(0, len(questions), QUESTIONS_PER_BLOCK):
            if progress:
                progress(start, len(questions), "mining and cleaning")
            table, without = builder.block(questions[start : start + QUESTIONS_PER_BLOCK], counts)
            left_out |= without
            if len(table):
                writer.write_table(table)
    sync_to_disk(path)
    return counts, left_out


def _write_lines(path: Path, rows) -> None:
    with open(path, "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    sync_to_disk(path)


@dataclass(frozen=True, slots=True)
class QuestionBlock:
    """Some questions and what is known of each: golds, unused and best as `QuestionEvidence` has them, labels by corpus row,
    passages that runs mined and that were drawn. rows: of the passages that gold and people name.
    """

    questions: Sequence[Question]
    labels: Mapping[str, Mapping[int, str]]
    golds: Sequence[Sequence[int]]
    unused: Sequence[AbstractSet[int]]
    best: Sequence[int | None]
    mined: MinedPassages
    easy: Sequence[Sequence[NegativeCandidate]]
    rows: Mapping[str, int]


class PairBuilder:
    """Builds the pairs of a training set, a block of questions at a time."""

    def __init__(self, study: Study, spec: TrainingSetSpec, sources: TrainingSetSources):
        self.study, self.spec, self.sources = study, spec, sources
        self.policy, self.thresholds = spec.cleaning, spec.thresholds
        self.pseudo = self.policy.definition.proposes in spec.positives
        self.drawer = EasyNegativeSampler.for_questions(study, sources.questions, spec.seed, spec.other_gold > 0)
        self.by_run = self.policy.definition.uses_ceiling and (
            self.thresholds.margin is not None or sources.scores is None
        )
        self._bm25: BM25 | None = None

    def block(self, ids: Sequence[str], counts: SetStats) -> tuple[pyarrow.Table, dict[str, str]]:
        """Return the pairs of some questions, and why the others among them cannot train. Counts the pairs."""
        spec, corpus = self.spec, self.study.corpus
        questions = self.study.questions.with_ids(ids)
        people = {id: self.sources.labels.get(id, {}) for id in ids}
        named = {passage for question in questions for passage in (*question.gold, *people[question.id])}
        rows = corpus.ordinals(named) if named else {}
        labels = {
            id: {rows[passage]: label for passage, label in held.items() if passage in rows}
            for id, held in people.items()
        }
        golds = [[rows[passage] for passage in question.gold if passage in rows] for question in questions]
        unused = [set() if "gold" in spec.positives else set(gold) for gold in golds]
        golds = golds if "gold" in spec.positives else [[] for _ in golds]
        best = self._distant_positives(questions, golds, labels)
        mined = mine_passages(self.sources.runs, questions, spec.first, spec.last, corpus, spec.rule)
        easy = self._easy_negatives(questions, golds, best, labels, mined)
        found = QuestionBlock(questions, labels, golds, unused, best, mined, easy, rows)
        plain = self._questions_without_evidence(found)
        pairs, left_out = self._assemble_questions(found, sorted(set(range(len(questions))).difference(plain)), counts)
        together = as_table(pairs)
        if plain:
            known = KnownPositives.for_questions(plain, golds, best)
            left_out |= dict.fromkeys(
                (questions[place].id for place in set(plain).difference(known.question_indexes.tolist())), NO_POSITIVE
            )
            columns, reasons = plain_pairs(known, mined, easy, self.policy.definition, self.thresholds)
            columns = sort_pairs(columns, corpus.ids)
            counts.add_columns(questions, columns, reasons)
            names = [question.id for question in questions], [run.name for run in self.sources.runs]
            table = pairs_table(columns, reasons, *names, corpus.ids)
            together = merge_tables(together, table, names[0]) if pairs else table
        return together, left_out

    def _questions_without_evidence(self, block: QuestionBlock) -> list[int]:
        """Return the places of the questions whose pairs depend on nothing but gold, ranks and the answer match."""
        if not self.policy.definition.by_answer or self.sources.scores is not None:
            return []
        return [
            place
            for place, question in enumerate(block.questions)
            if not block.labels[question.id] and not block.unused[place]
        ]

    def _assemble_questions(
        self, block: QuestionBlock, question_indexes: Sequence[int], counts: SetStats
    ) -> tuple[list[Pair], dict[str, str]]:
        """Return the pairs of the questions at these places, each judged alone, and why the others cannot train."""
        assembled: list[Pair] = []
        left_out: dict[str, str] = {}
        questions, golds, best, labels = block.questions, block.golds, block.best, block.labels
        runs = [run.name for run in self.sources.runs]
        mined = candidates_by_question(block.mined, question_indexes, runs, len(questions))
        scores = self.sources.scores
        scored = scores.scores_of([questions[place].id for place in question_indexes]) if scores else {}
        names = self._passage_ids(question_indexes, block, mined)
        for place in question_indexes:
            question, candidates = questions[place], [*mined[place], *block.easy[place]]
            known = (
                set(golds[place])
                | _without_none(best[place])
                | {o for o, label in labels[question.id].items() if label == "positive"}
            )
            listed_scores, floors = run_scores(self.sources.runs, question.id, known) if self.by_run else ({}, {})
            probabilities = scored.get(question.id, {})
            ordinals = {candidate.ordinal for candidate in candidates} | known if probabilities else ()
            evidence = QuestionEvidence(
                golds[place],
                block.unused[place] - _without_none(best[place]),
                best[place],
                candidates,
                labels[question.id],
                {o: probabilities[names[o]] for o in ordinals if names[o] in probabilities},
                names,
                listed_scores,
                floors,
                modelled=scores is not None,
            )
            pairs, reason = assemble(question.id, evidence, self.policy, self.thresholds, self.pseudo)
            if reason is None:
                counts.add(question, pairs)
                assembled += pairs
            else:
                left_out[question.id] = reason
        return assembled, left_out

    def _distant_positives(
        self, questions: Sequence[Question], golds: Sequence[Sequence[int]], labels: Mapping[str, Mapping[int, str]]
    ) -> list[int | None]:
        """Return the positive by distant supervision for each question without another positive."""
        if "distant" not in self.spec.positives:
            return [None] * len(questions)
        bare = [
            question
            for question, gold in zip(questions, golds, strict=True)
            if not gold and "positive" not in labels[question.id].values()
        ]
        if bare and self._bm25 is None:
            from blindspot.backend.retrieval.bm25 import BM25

            self._bm25 = BM25(self.study)
        denied = {id: held.keys() for id, held in labels.items()}
        positives = distant_positives(self._bm25, self.study.corpus, bare, self.spec.rule, denied) if bare else []
        by_id = {question.id: ordinal for question, ordinal in zip(bare, positives, strict=True)}
        return [by_id.get(question.id) for question in questions]

    def _easy_negatives(
        self, questions: Sequence[Question], golds: Sequence, best: Sequence, labels: Mapping, mined: MinedPassages
    ) -> list[list[NegativeCandidate]]:
        """Draw easy negatives for each question, without its known, mined and judged passages."""
        if not self.spec.random and not self.spec.other_gold:
            return [[] for _ in questions]
        drawn = []
        for place, question in enumerate(questions):
            excluded = set(mined.ordinals[mined.question_indexes == place].tolist()).union(
                golds[place], _without_none(best[place]), labels[question.id]
            )
            others = self.drawer.other_gold(question, self.spec.other_gold, excluded)
            drawn.append(
                others + self.drawer.random(question, self.spec.random, excluded | {other.ordinal for other in others})
            )
        return match_answers(questions, drawn, self.study.corpus, self.spec.rule)

    def _passage_ids(
        self, question_indexes: Sequence[int], block: QuestionBlock, mined: Sequence[Sequence[NegativeCandidate]]
    ) -> dict[int, str]:
        """The id of every passage of the questions at these places, by corpus row."""
        names = {ordinal: passage for passage, ordinal in block.rows.items()}
        wanted = {
            ordinal
            for place in question_indexes
            for ordinal in (*block.golds[place], *_without_none(block.best[place]))
        }
        wanted |= {each.ordinal for place in question_indexes for each in (*mined[place], *block.easy[place])}
        return names | self.study.corpus.ids(sorted(wanted - names.keys()))


def _without_none(row: int | None) -> set[int]:
    return set() if row is None else {row}
