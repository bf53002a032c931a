"""A table of LanceDB; WHERE is the folder of the database. Lance searches with the metric of its index or, without an
index, exactly with the encoder's similarity.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from blindspot.backend.retrieval.engines.engine import ENGINES
from blindspot.backend.retrieval.engines.engine_settings import EngineSettings
from blindspot.backend.retrieval.engines.vector_store import VectorStore, VectorStoreEngine
from blindspot.db.corpus import Row
from blindspot.db.errors import Missing, Refused


class LanceTable(VectorStore):
    def __init__(self, path: Path, settings: EngineSettings):
        import lancedb

        database = lancedb.connect(str(path))
        known = database.list_tables().tables
        if settings.collection not in known:
            raise Missing(
                f"LanceDB in {path} has no table {settings.collection!r}; tables: {', '.join(known) or 'none'}"
            )
        self.table = database.open_table(settings.collection)
        schema = self.table.schema
        vectors = [name for name in schema.names if hasattr(schema.field(name).type, "list_size")]
        self.vector = settings.vector_field or next(iter(vectors), "")
        if self.vector not in vectors:
            raise Refused(f"the table {settings.collection} has no vectors in {self.vector or 'any column'}")
        self.width, self.count = schema.field(self.vector).type.list_size, self.table.count_rows()
        indexes = [each for each in self.table.list_indices() if self.vector in each.columns]
        self.metric = self.table.index_stats(indexes[0].name).distance_type if indexes else ""
        self.columns = [settings.id_field or "id", settings.title_field, settings.text_field]
        if absent := next((each for each in self.columns if each and each not in schema.names), None):
            raise Refused(
                f"the table {settings.collection} has no column {absent!r}; columns: {', '.join(schema.names)}"
            )

    def search(self, vector: np.ndarray, k: int, similarity: str) -> list[tuple[str, float]]:
        query = (
            self.table.search(vector, vector_column_name=self.vector).distance_type(self.metric or similarity).limit(k)
        )
        return [(str(row[self.columns[0]]), -float(row["_distance"])) for row in query.to_list()]

    def rows(self) -> Iterator[Row]:
        id, title, text = self.columns
        for batch in self.table.search().select([each for each in self.columns if each]).to_batches():
            for row in batch.to_pylist():
                yield str(row[id]), str(row.get(title) or ""), str(row.get(text) or "")


class LanceEngine(VectorStoreEngine):
    name, title = "lancedb", "LanceDB"
    help = "the folder of a LanceDB database"
    store = LanceTable


ENGINES.register(LanceEngine())
