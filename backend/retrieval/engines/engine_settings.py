"""The options of `blindspot index open`. This module is separate from `engine` so that the command line loads without
NumPy.
"""

from __future__ import annotations

from blindspot.backend.core.declared import Field, settings_class


@settings_class
class EngineSettings:
    """The settings for opening an index. Each engine uses some of them and refuses the others."""

    encoder: str = Field(default="", description="Encoder that made the vectors; questions are encoded with it")
    ids: str = Field(default="", description="File with the passage id of each vector: text, a line each, or .npy")
    collection: str = Field(default="", description="Collection of Milvus")
    id_field: str = Field(default="", description="Field with the passage id (default: the engine's own id)")
    title_field: str = Field(default="", description="Field with the title, to read the passages from the index")
    text_field: str = Field(default="", description="Field with the text, to read the passages from the index")
    vector_field: str = Field(default="", description="Field with the vectors (default: the collection's only one)")
