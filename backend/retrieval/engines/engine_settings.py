"""The options of `blindspot index open`. This module is separate from `engine` so that the command line loads without
NumPy.
"""

from __future__ import annotations

from blindspot.backend.core.declared import Field, settings_class


@settings_class
class EngineSettings:
    """How an index is read. Each engine uses its own settings and refuses the others."""

    encoder: str = Field(
        default="", title="Encoder", description="Encoder that made the vectors; questions are encoded with it"
    )
    ids: str = Field(
        default="", title="Ids", description="File with the passage id of each vector: text, a line each, or .npy"
    )
    collection: str = Field(
        default="", title="Collection", description="Milvus collection, Elasticsearch index or Vespa document type"
    )
    fields: str = Field(
        default="", title="Fields", description="Fields that BM25 searches, with commas between them, as in title,text"
    )
    id_field: str = Field(
        default="", title="Id field", description="Field with the passage id (default: the engine's own id)"
    )
    title_field: str = Field(
        default="", title="Title field", description="Field with the title, to read the passages from the index"
    )
    text_field: str = Field(
        default="", title="Text field", description="Field with the text, to read the passages from the index"
    )
    vector_field: str = Field(
        default="", title="Vector field", description="Field with the vectors; searches these instead of words"
    )
    ranking: str = Field(default="", title="Ranking", description="Vespa's rank profile (default: bm25, or closeness)")
    timeout: float = Field(default=30.0, title="Time limit", description="Seconds for one answer", gt=0, le=3600)
    retries: int = Field(
        default=4, title="Retries", description="Repetitions of a request while the engine is busy or away", ge=0, le=20
    )
