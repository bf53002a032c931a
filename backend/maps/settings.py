"""The settings of a map, declared once for the command, the form, the job and HTTP."""

from __future__ import annotations

from typing import Literal

from blindspot.backend.core.declared import Field, settings_class
from blindspot.backend.core.settings import check_name
from blindspot.db.errors import Refused

Source = Literal["gold", "top", "random"]
SOURCES: tuple[Source, ...] = ("gold", "top", "random")
FEWEST, MOST = 30, 200_000


@settings_class
class MapRequest:
    """The settings of one map. With `second`, the map shows the vectors of two encoders, for example before and after
    training.

    Gold passages are chosen first, then the run's passages by rank, then random passages. If there are too many gold
    passages, a sample is drawn.
    """

    name: str = Field(description="Name of the map, also its folder and part of its address")
    encoder: str = Field(default="minilm", description="Encoder whose dense index is mapped")
    second: str | None = Field(
        default=None, description="Encoder of a second dense index; the map shows both, as before and after"
    )
    questions: str | None = Field(
        default=None, description="Questions: a split, a question set, or SET/SPLIT; default those of --run, else all"
    )
    run: str | None = Field(default=None, description="Run whose top passages go on the map")
    passages: tuple[Source, ...] = Field(default=SOURCES, description="Source of passages")
    top: int = Field(default=10, title="Top k of the run", description="Number of top passages of each question", ge=1)
    random: int = Field(default=2000, title="Random passages", description="Number of random passages", ge=0)
    most: int = Field(
        default=10_000, title="Maximum passages", description="Maximum number of passages", ge=FEWEST, le=MOST
    )
    draw_questions: bool = Field(default=True, title="Show questions", description="Show the questions as points too")
    method: Literal["umap", "tsne"] = Field(default="umap", title="Method", description="Projection method")
    seed: int = Field(
        default=0, title="Seed", description="Seed of the projection, the random passages and the clusters", ge=0
    )
    neighbours: int = Field(
        default=15,
        title="Neighbours",
        description="Number of neighbours in UMAP: low for local detail, high for global structure",
        ge=2,
    )
    min_dist: float = Field(
        default=0.1, title="Minimum distance", description="Minimum distance of points in UMAP", ge=0
    )
    perplexity: float = Field(default=30.0, title="Perplexity", description="Perplexity of t-SNE", ge=2)
    components: int = Field(
        default=50, description="Number of principal components that are projected and clustered", ge=2
    )
    clusters: Literal["kmeans", "hdbscan", "none"] = Field(
        default="kmeans", title="Clusters", description="Clustering method"
    )
    cluster_count: int = Field(
        default=20, title="Number of clusters", description="Number of clusters of k-means", ge=2
    )
    cluster_size: int = Field(
        default=30, title="Minimum cluster size", description="Minimum cluster size of HDBSCAN", ge=2
    )

    def __post_init__(self) -> None:
        """Check combinations of settings. Raises Refused for settings that contradict each other."""
        check_name(self.name, "map")
        if not self.passages:
            raise Refused(f"choose at least one source of passages: {', '.join(SOURCES)}")
        if self.second == self.encoder:
            raise Refused(f"the second encoder must differ from the first, {self.encoder!r}")
        if "top" in self.passages and self.run is None:
            raise Refused("'top' needs a run: name one with --run, or remove 'top' from the passages")
