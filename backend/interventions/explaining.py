"""Explain misses by intervention: apply each edit, encode the edited texts, and rank them in the stored index."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from blindspot.backend.data.importing.gold import find_ordinals
from blindspot.backend.evaluation.why import name_words
from blindspot.backend.interventions.edits import EDITS, EditedMiss, MissedQuestion, edited, size
from blindspot.backend.interventions.misses import Wordings
from blindspot.backend.interventions.searching import Attempt, ranks
from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.retrieval.encoder import VECTOR_SETTINGS
from blindspot.backend.retrieval.question_vectors import question_vectors
from blindspot.backend.text.answers import DEFAULT_RULE
from blindspot.db.connection import PerThread, writing
from blindspot.db.errors import Missing
from blindspot.db.records import Passage, Question

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study

ABOVE = 100  # passages at the top that an edit looks at
PER_BLOCK = 16  # misses that one pass over the index ranks
FILE = "edit_ranks.db"
INDEX_KEYS = (
    "model_hash",
    "corpus",
    "similarity",
    "pooling",
    "passage_template",
    "max_tokens",
    "dimension",
    *VECTOR_SETTINGS,
)
"""The entries of an index's manifest on which ranks depend."""
_SCHEMA = "CREATE TABLE IF NOT EXISTS edit_rank (key TEXT PRIMARY KEY, rank INTEGER NOT NULL) STRICT, WITHOUT ROWID;"


@dataclass(frozen=True, slots=True)
class TriedEdit:
    """An edit that applied to a miss. rank: of the gold passage afterwards. size: the share of changed tokens."""

    name: str
    rank: int
    size: float
    question: str
    title: str
    text: str
    removed: int

    @property
    def cause(self) -> str:
        return EDITS[self.name].cause


@dataclass(frozen=True, slots=True)
class ExplainedMiss:
    """A miss and its edits, smallest first. rank: of the gold passage as it is. winner: the title at rank 1."""

    question: Question
    gold: Passage
    rank: int
    winner: str
    tried: tuple[TriedEdit, ...]

    def smallest(self, k: int) -> TriedEdit | None:
        """Return the smallest edit that brings the gold passage into the top k; None if no edit does."""
        return next((each for each in self.tried if each.rank <= k), None)

    def cause(self, k: int) -> str | None:
        """Return the cause that the smallest edit names; None if no edit brings the gold passage into the top k."""
        found = self.smallest(k)
        return None if found is None else found.cause


class MissExplainer:
    """Explains misses of the encoder `name` of a study. Raises Missing without its index.

    Args:
        dense: the open index of this encoder, if the caller has it.
    """

    def __init__(
        self,
        study: Study,
        name: str,
        rule: str = DEFAULT_RULE,
        device: str | None = None,
        dense: Dense | None = None,
    ):
        self.study, self.rule, self.dense = study, rule, dense or Dense(study, name, device)
        self.similarity = "l2" if self.dense.manifest["similarity"] == "l2" else "dot"

    @cached_property
    def wordings(self) -> Wordings:
        return Wordings.of(self.study.questions.all())

    def explain(self, questions: Sequence[Question]) -> Iterator[list[ExplainedMiss]]:
        """Yield the questions' explanations, a block at a time. Ranks that were computed before are not again.

        Raises Missing for a question without a gold passage in the collection.
        """
        for start in range(0, len(questions), PER_BLOCK):
            yield self._block(questions[start : start + PER_BLOCK])

    def _block(self, questions: Sequence[Question]) -> list[ExplainedMiss]:
        dense, corpus = self.dense, self.study.corpus
        vectors = question_vectors(self.study, dense, [question.text for question in questions])
        hits = dense.search_vectors(vectors, min(ABOVE, len(corpus)))
        misses, before, gold_rows = [], [], []
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
            gold, *passages = corpus.passages([best, *above])
            misses.append(
                MissedQuestion(
                    question,
                    gold,
                    tuple(zip(above, passages, strict=True)),
                    self.wordings.plain(question),
                    self.wordings.stand_in(question),
                    self.rule,
                )
            )
            gold_rows.append(rows)
            before.append(Attempt(number, np.asarray(dense.vectors[best]), rows))
        present = ranks(dense.vectors, vectors, before, self.similarity)
        tried = [(number, name, each) for number, miss in enumerate(misses) for name, each in edited(miss).items()]
        after = self._ranks([(each, gold_rows[number]) for number, _, each in tried])
        return [
            ExplainedMiss(
                miss.question,
                miss.gold,
                int(present[number]),
                miss.above[0][1].title if miss.above else miss.gold.title,
                tuple(
                    TriedEdit(
                        name,
                        rank,
                        size(miss, each),
                        each.question,
                        each.passage.title,
                        each.passage.text,
                        len(each.removed),
                    )
                    for (owner, name, each), rank in zip(tried, after, strict=True)
                    if owner == number
                ),
            )
            for number, miss in enumerate(misses)
        ]

    def _ranks(self, tried: Sequence[tuple[EditedMiss, Sequence[int]]]) -> list[int]:
        """Return the rank after each edit, from the store where it is known."""
        keys = [self._key(each, gold) for each, gold in tried]
        folder = self.study.path("indexes", self.dense.name)
        if not os.access(folder, os.W_OK):
            return self._computed(tried)
        store = PerThread(folder / FILE)
        try:
            store.connection.executescript(_SCHEMA)
            stored: dict[str, int] = dict(
                store.connection.execute(
                    "SELECT key, rank FROM edit_rank WHERE key IN (SELECT value FROM json_each(?))",
                    (json.dumps(keys),),
                )
            )
            absent = {key: pair for key, pair in zip(keys, tried, strict=True) if key not in stored}
            new = dict(zip(absent, self._computed(list(absent.values())), strict=True))
            with writing(store.connection) as connection:
                connection.executemany("INSERT OR IGNORE INTO edit_rank VALUES (?, ?)", list(new.items()))
            return [(stored | new)[key] for key in keys]
        finally:
            store.close()

    def _key(self, each: EditedMiss, gold: Sequence[int]) -> str:
        manifest = self.dense.manifest
        content = [
            [manifest.get(key) for key in INDEX_KEYS],
            each.question,
            each.passage.title,
            each.passage.text,
            sorted(each.removed),
            sorted(each.still_above),
            each.ignored,
            list(gold),
        ]
        return hashlib.blake2b(json.dumps(content).encode(), digest_size=16).hexdigest()

    def _computed(self, tried: Sequence[tuple[EditedMiss, Sequence[int]]]) -> list[int]:
        if not tried:
            return []
        texts = list(dict.fromkeys(each.question for each, _ in tried))
        vectors = question_vectors(self.study, self.dense, texts)
        places = {text: number for number, text in enumerate(texts)}
        passages = list(dict.fromkeys(each.passage for each, _ in tried))
        encoded = dict(zip(passages, self.dense.encoder.encode_passages(passages), strict=True))
        ignored = self._named_rows(
            {(places[each.question], each.ignored) for each, _ in tried if each.ignored}, vectors
        )
        attempts = [
            Attempt(
                places[each.question],
                encoded[each.passage].astype(np.float16),
                [*gold, *each.removed, *each.still_above, *ignored.get((places[each.question], each.ignored), ())],
                len(each.still_above),
            )
            for each, gold in tried
        ]
        return [int(rank) for rank in ranks(self.dense.vectors, vectors, attempts, self.similarity)]

    def _named_rows(self, asked: set[tuple[int, str]], vectors: np.ndarray) -> dict[tuple[int, str], list[int]]:
        """Return, for (question, name), the top passages whose title contains the name."""
        result = {}
        for number, name in sorted(asked):
            hits = self.dense.search_vectors(vectors[number : number + 1], min(ABOVE, len(self.study.corpus)))
            rows = [int(row) for row in hits.ordinals[0] if row >= 0]
            words = set(name_words(name))
            titles = zip(rows, self.study.corpus.passages(rows), strict=True)
            result[number, name] = [row for row, passage in titles if words <= set(name_words(passage.title))]
        return result
