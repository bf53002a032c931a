"""The rank and score of each edited passage in the stored index. Known results are read from a store beside the index."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.miss_facts import name_words
from blindspot.backend.interventions.edits import EditedMiss
from blindspot.backend.interventions.searching import Attempt, PassageRank, ranks_of_passages
from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.retrieval.encoder import VECTOR_SETTINGS
from blindspot.backend.retrieval.new_passages import NewPassages
from blindspot.backend.retrieval.question_vectors import question_vectors
from blindspot.db.connection import PerThread, write_transaction
from blindspot.db.records import Passage

PASSAGES_ABOVE = 100  # passages at the top that an edit looks at
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
"""The entries of an index's manifest that affect ranks."""
_SCHEMA = """
DROP TABLE IF EXISTS edit_rank;  -- of version 0.2, without scores
CREATE TABLE IF NOT EXISTS reached (key TEXT PRIMARY KEY, rank INTEGER NOT NULL, score REAL NOT NULL) STRICT, WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class EditAttempt:
    """An edit whose effect is to be measured. stored, row: the passage before the edit, and its row. without: rows that
    are never ranked.
    """

    edited: EditedMiss
    stored: Passage
    row: int
    without: Sequence[int]

    @property
    def needs_encoding(self) -> bool:
        return self.edited.new_gold is None and self.edited.passage != self.stored

    @property
    def stored_row(self) -> int:
        """The row whose stored vector is used if the edit does not change the passage's text."""
        return self.row if self.edited.new_gold is None else self.edited.new_gold


class EditRanks:
    """Ranks edited passages among those of an open dense index of a study."""

    def __init__(self, study: Study, dense: Dense):
        self.study, self.dense = study, dense
        self.similarity = "l2" if dense.manifest["similarity"] == "l2" else "dot"
        self._new_passages = NewPassages(dense)

    def of(self, attempts: Sequence[EditAttempt]) -> list[PassageRank]:
        """Return the rank and score of each edited passage. Known results are read from the store."""
        keys = [self._key(each) for each in attempts]
        folder = self.study.path("indexes", self.dense.name)
        if not os.access(folder, os.W_OK):
            return self._computed(attempts)
        store = PerThread(folder / FILE)
        try:
            store.connection.executescript(_SCHEMA)
            known = {
                key: PassageRank(rank, score)
                for key, rank, score in store.connection.execute(
                    "SELECT key, rank, score FROM reached WHERE key IN (SELECT value FROM json_each(?))",
                    (json.dumps(keys),),
                )
            }
            absent = {key: each for key, each in zip(keys, attempts, strict=True) if key not in known}
            new = dict(zip(absent, self._computed(list(absent.values())), strict=True))
            with write_transaction(store.connection) as connection:
                connection.executemany(
                    "INSERT OR IGNORE INTO reached VALUES (?, ?, ?)",
                    [(key, each.rank, each.score) for key, each in new.items()],
                )
            return [(known | new)[key] for key in keys]
        finally:
            store.close()

    def _key(self, attempt: EditAttempt) -> str:
        manifest, edited = self.dense.manifest, attempt.edited
        content = [
            [manifest.get(key) for key in INDEX_KEYS],
            edited.question,
            edited.passage.title,
            edited.passage.text,
            sorted(edited.removed),
            sorted(edited.still_above),
            edited.ignored,
            edited.new_gold,
            list(attempt.without),
        ]
        return hashlib.blake2b(json.dumps(content).encode(), digest_size=16).hexdigest()

    def _computed(self, tries: Sequence[EditAttempt]) -> list[PassageRank]:
        if not tries:
            return []
        texts = list(dict.fromkeys(each.edited.question for each in tries))
        vectors = question_vectors(self.study, self.dense, texts)
        places = {text: number for number, text in enumerate(texts)}
        encoded = self._encode_passages(
            list(dict.fromkeys(each.edited.passage for each in tries if each.needs_encoding))
        )
        ignored = self._rows_naming(
            {(places[each.edited.question], each.edited.ignored) for each in tries if each.edited.ignored}, vectors
        )
        attempts = []
        for each in tries:
            edited, place = each.edited, places[each.edited.question]
            attempts.append(
                Attempt(
                    place,
                    encoded[edited.passage] if each.needs_encoding else np.asarray(self.dense.vectors[each.stored_row]),
                    [
                        *each.without,
                        *([] if edited.new_gold is None else [edited.new_gold]),
                        *edited.removed,
                        *edited.still_above,
                        *ignored.get((place, edited.ignored), ()),
                    ],
                    len(edited.still_above),
                )
            )
        return ranks_of_passages(self.dense.vectors, vectors, attempts, self.similarity)

    def _encode_passages(self, passages: Sequence[Passage]) -> dict[Passage, np.ndarray]:
        """Return the vector of each passage, (d,) float16, encoding all passages in one batch."""
        return dict(zip(passages, self._new_passages.encode(passages), strict=True)) if passages else {}

    def _rows_naming(self, names: set[tuple[int, str]], vectors: np.ndarray) -> dict[tuple[int, str], list[int]]:
        """Return for each (question, name) the top-ranked passages whose title contains the name."""
        if not names:
            return {}
        asked_pairs = sorted(names)
        hits = self.dense.search_vectors(
            vectors[[number for number, _ in asked_pairs]], min(PASSAGES_ABOVE, len(self.study.corpus))
        )
        result = {}
        for (number, name), ordinals in zip(asked_pairs, hits.ordinals, strict=True):
            rows = [int(row) for row in ordinals if row >= 0]
            words = set(name_words(name))
            titles = zip(rows, self.study.corpus.passages(rows), strict=True)
            result[number, name] = [row for row, passage in titles if words <= set(name_words(passage.title))]
        return result
