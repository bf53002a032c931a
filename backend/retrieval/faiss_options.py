"""The options of FAISS indexes. This module is separate from `approximate` so that the command line loads without
NumPy.
"""

from __future__ import annotations

from blindspot.backend.core.declared import Field, settings_class

KINDS = ("flat", "hnsw", "ivfpq")


@settings_class
class FaissOptions:
    """Settings of an approximate index. Each kind uses its own and ignores the rest."""

    links: int = Field(default=32, description="HNSW: links per vector (M; DPR: 512, which takes 4 KB a vector)", ge=2)
    build_effort: int = Field(default=200, description="HNSW: candidates while building (efConstruction)", ge=1)
    search_effort: int = Field(default=128, description="HNSW: candidates while searching (efSearch)", ge=1)
    lists: int = Field(
        default=0, description="IVF-PQ: inverted lists; 0: four times the square root of the number of vectors", ge=0
    )
    code_bytes: int = Field(default=64, description="IVF-PQ: bytes per vector", ge=1)
    probes: int = Field(default=64, description="IVF-PQ: inverted lists that a search visits", ge=1)
