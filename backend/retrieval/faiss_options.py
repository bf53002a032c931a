"""The options of FAISS indexes and of Milvus collections. This module is separate from `approximate` so that the
command line loads without NumPy.
"""

from __future__ import annotations

from blindspot.backend.core.declared import Field, settings_class

KINDS = ("hnsw", "ivfpq")


@settings_class
class FaissOptions:
    """The settings of approximate indexes. Each kind of index uses some of them and ignores the rest."""

    links: int = Field(default=32, description="HNSW: links per vector (M; DPR: 512, which takes 4 KB a vector)", ge=2)
    build_effort: int = Field(default=200, description="HNSW: candidates while building (efConstruction)", ge=1)
    search_effort: int = Field(default=128, description="HNSW: candidates while searching (efSearch)", ge=1)
    lists: int = Field(
        default=0, description="IVF-PQ: inverted lists; 0: four times the square root of the number of vectors", ge=0
    )
    code_bytes: int = Field(default=64, description="IVF-PQ: bytes per vector", ge=1)
    probes: int = Field(default=64, description="IVF-PQ: inverted lists that a search visits", ge=1)


@settings_class
class MilvusSettings:
    """The settings of a Milvus collection of an encoder's vectors, and of the server's index over it."""

    collection: str | None = Field(
        default=None, description="Name of the collection; default from the encoder and the passages"
    )
    index: str = Field(
        default="FLAT", description="Index type of the server: FLAT, HNSW, IVF_SQ8, IVF_PQ, DISKANN, GPU_CAGRA, ..."
    )
    replicas: int = Field(default=1, description="Number of in-memory replicas in the cluster", ge=1)
    replace: bool = Field(default=False, description="Replace the collection if it exists")
