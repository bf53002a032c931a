"""Dense retrieval: passages are encoded once, and their vectors are searched exactly."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from blindspot.backend.core.arrays import open_array
from blindspot.backend.core.declared import Field, settings_class
from blindspot.backend.core.jobs import job, request
from blindspot.backend.core.manifest import file_sha256, read_manifest, write_manifest
from blindspot.backend.core.settings import VECTOR_SETTINGS, EncoderSettings, Settings
from blindspot.backend.core.study import Study
from blindspot.backend.core.summary import Step
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.dense_shards import Shard, complete_blocks, encode_shard, merge_blocks
from blindspot.backend.retrieval.encoder import Encoder, load_encoder
from blindspot.backend.retrieval.passage_encoder import PassageEncoder, typical_distance
from blindspot.backend.retrieval.retriever import (
    RETRIEVERS,
    NamedKind,
    OpenPart,
    refuse_other_index,
)
from blindspot.backend.retrieval.search import ExactSearch
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.records import Hits, Passage

KIND = "dense index"
# sample of passages encoded in 16 and 32 bits to choose the precision; every shard uses the same sample
PRECISION_SAMPLE = 32
QUESTIONS_PER_STEP = 1024  # encoded between two progress reports
SAMPLE = 8  # sample of passages encoded here to check imported vectors
WHOLE = Shard(1, 1)
# maximum distance of an imported vector from our own, relative to the typical distance of two passages; 16 bits cause
# 0.02
SAME_VECTOR = 0.25
# entries of the index's manifest that a run's manifest repeats
RECORDED = ("similarity", "pooling", "passage_template", "max_tokens", "dimension", "model_hash", "made_by")


def encoder_settings(study: Study, name: str) -> EncoderSettings:
    """Return the settings of an encoder. Raises Missing if study.toml does not name the encoder."""
    encoders = study.settings.encoders
    if name not in encoders:
        raise Missing(
            f"study.toml has no encoder {name!r}; known: {', '.join(encoders) or 'none'} (add one with 'blindspot "
            "encoder add')"
        )
    return encoders[name]


@job("index dense")
def build_index(
    study: Study,
    name: str,
    vectors: str | Path | None = None,
    device: str | None = None,
    progress: Progress | None = None,
    *,
    ids: str | Path | None = None,
    merge: bool = False,
    precision: str = "auto",
) -> dict:
    """Encode all passages with the encoder `name`, or import their vectors from a file or from shards. Return the
    manifest.

    Vectors are written in blocks. An interrupted encoding resumes after the last complete block.

    Args:
        vectors: an .npy file, (n, d) float16 or float32; row i belongs to passage i, unless `ids` are given. A sample
            is checked against the encoder.
        ids: a file with the passage id of each vector, one a line.
        merge: join the shards that `encode_part` wrote on this or other machines, without loading the encoder.
        precision: of the encoder; see `blindspot.backend.retrieval.passage_encoder`.

    Raises Refused for vectors that do not fit the passages or the encoder, or if another process is building the index,
    and Missing for missing shards.
    """
    settings, corpus, folder = encoder_settings(study, name), study.corpus, study.path("indexes", name)
    if merge and vectors is not None:
        raise Refused("give either --vectors (vectors from a file) or --merge (vectors from shards)")
    refuse_other_index(study, name, KIND)
    if ids is not None and vectors is None:
        raise Refused("--ids names the passages of --vectors; give both")
    started, shards, order = time.monotonic(), folder / "shards", None
    with study.lock_part(f"indexes/{name}"):
        if merge:
            recipe, sources = complete_blocks(shards, corpus.digest, name)
            origin = {"made_by": "encoding in shards", "shards": len({source.parent for source in sources})}
        else:
            encoder = load_encoder(settings, device)
            recipe = _vector_recipe(study, name, encoder)
        (folder / "manifest.json").unlink(missing_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        if vectors is not None:
            vectors = Path(vectors)
            order = _check_vectors(study, encoder, vectors, None if ids is None else Path(ids))
            sources = [vectors]
            origin = {"made_by": "imported vectors", "file": vectors.name, "sha256": file_sha256(vectors)}
        elif not merge:
            recipe, sources = _encode_shard(study, encoder, recipe, precision, WHOLE, progress)
            origin = {"made_by": "encoding here"}
        unit_length = merge_blocks(sources, folder / "embeddings.npy", recipe, progress, order)
        manifest = write_manifest(
            folder, {**recipe, **origin, "unit_length": unit_length, "seconds": round(time.monotonic() - started, 1)}
        )
        for made in {source.parent for source in sources if source.parent.parent == shards}:
            shutil.rmtree(made, ignore_errors=True)
        if shards.is_dir() and not any(shards.iterdir()):
            shards.rmdir()
        return manifest


def encode_part(
    study: Study,
    name: str,
    shard: str,
    device: str | None = None,
    precision: str = "auto",
    progress: Progress | None = None,
) -> dict:
    """Encode one shard, such as "2/8", and return its manifest. `build_index` merges the shards when all are encoded.

    Encoding needs only the study's corpus.db and study.toml, and writes to indexes/<encoder>/shards. Several machines
    may work in the same folder, or each in its own copy. An interrupted shard is resumed, and a finished shard is not
    encoded again.
    """
    part = Shard.parse(shard)
    part.starts(len(study.corpus))
    settings = encoder_settings(study, name)
    with study.lock_part(f"indexes/{name}/{part.name}"):
        encoder = load_encoder(settings, device)
        _encode_shard(study, encoder, _vector_recipe(study, name, encoder), precision, part, progress)
        manifest = read_manifest(study.path("indexes", name, "shards", part.name))
        assert manifest is not None, "the shard was just finished"
        return manifest


def _vector_recipe(study: Study, name: str, encoder: Encoder) -> dict:
    return {
        "kind": KIND,
        "encoder": name,
        "passages": len(study.corpus),
        "corpus": study.corpus.digest,
        "dtype": "float16",
        **encoder.describe(),
    }


def _encode_shard(
    study: Study, encoder: Encoder, recipe: dict, precision: str, shard: Shard, progress: Progress | None
) -> tuple[dict, list[Path]]:
    """Encode a shard. Return its recipe (everything that determines the vectors, including the precision) and the files
    of its blocks.
    """
    corpus, folder = study.corpus, study.path("indexes", recipe["encoder"], "shards")
    sample = np.unique(np.linspace(0, max(len(corpus) - 1, 0), min(PRECISION_SAMPLE, len(corpus))).astype(int))
    passages = PassageEncoder(encoder, precision, corpus.passages(sample.tolist()))
    recipe = {**recipe, "precision": passages.precision}
    encode_shard(corpus, passages, recipe, shard, folder, progress)
    return recipe, sorted((folder / shard.name).glob("*.npy"))


def _check_vectors(study: Study, encoder: Encoder, path: Path, ids: Path | None = None) -> np.ndarray | None:
    """Check a file of vectors, and return the row of each passage's vector; None if row i belongs to passage i.

    Raises BadInput for vectors that do not fit the passages or differ from the encoder's own.
    """
    if not path.exists():
        raise Missing(f"there is no file {path}")
    vectors = open_array(path, "save the vectors with numpy.save")
    expected = (len(study.corpus) if ids is None or not vectors.ndim else len(vectors), encoder.dimension)
    if vectors.shape != expected or vectors.dtype not in (np.float16, np.float32):
        raise BadInput(
            f"has shape {vectors.shape} and type {vectors.dtype}; this study and encoder need shape {expected} and "
            "float16 or float32",
            path,
        )
    from blindspot.backend.retrieval.vector_ids import read_ids, vector_rows  # reads every format of a table

    order = None if ids is None else vector_rows(study.corpus, read_ids(ids, len(vectors), path.name), ids)
    sample = np.unique(np.linspace(0, len(study.corpus) - 1, SAMPLE).astype(int))
    places = sample if order is None else order[sample]
    check_sample(encoder, study.corpus.passages(sample.tolist()), vectors[places], places, path)
    return order


def check_sample(
    encoder: Encoder, passages: Sequence[Passage], vectors: np.ndarray, rows: np.ndarray, path: Path
) -> None:
    """Raise BadInput if some vectors of a file differ from the encoder's own vectors of these passages.

    Args:
        vectors: (n, d), from the rows (n,) of the file.
    """
    ours, theirs = encoder.encode_passages(passages), vectors.astype(np.float32)
    if encoder.similarity == "cosine":
        theirs = theirs / np.maximum(np.linalg.norm(theirs, axis=1, keepdims=True), 1e-12)
    typical = typical_distance(ours)
    if typical is None:  # of a single passage
        typical = float(np.linalg.norm(ours))
    error = np.nan_to_num(np.linalg.norm(ours - theirs, axis=1), nan=np.inf) / typical
    if error.max() > SAME_VECTOR:
        worst = int(error.argmax())
        raise BadInput(
            f"row {rows[worst]} differs from the encoder's vector of passage {passages[worst].id!r} by "
            f"{error[worst]:.0%} of the typical distance between two passages; check the model, the text template "
            "and the order of the passages",
            path,
        )


class Dense:
    """Dense retrieval with one encoder: exact, or through an index of `approximate` (hnsw, ivfpq).

    Raises Missing if there is no index, and Refused if the index was made over other passages. The first search loads
    the encoder, and raises Refused if its weights or settings have changed since the index was made.
    """

    def __init__(self, study: Study, name: str, device: str | None = None, approximate: str | None = None):
        folder = study.path("indexes", name)
        manifest = read_manifest(folder)
        if manifest is None or manifest.get("kind") != KIND:
            raise Missing(f"no dense index for encoder {name!r}; run 'blindspot index dense --encoder {name}'")
        if manifest["corpus"] != study.corpus.digest:
            raise Refused(
                f"the index {name!r} was made over other passages; run 'blindspot index dense --encoder {name}' again"
            )
        self.name, self.manifest, self.device = name, manifest, device
        self.encoder_settings = encoder_settings(study, name)
        self.kept_in: Study | None = None  # inside `question_vectors.cached_question_vectors`
        self.seconds_saved = 0.0  # by vectors from that cache: what encoding them took once
        self.vectors = open_array(folder / "embeddings.npy", f"run 'blindspot index dense --encoder {name}' again")
        self.settings = {
            "retriever": name,
            "kind": "dense",
            **{key: manifest[key] for key in RECORDED},
            **{key: manifest[key] for key in VECTOR_SETTINGS if key in manifest},
        }
        self._approximate = None
        if approximate is not None:
            from blindspot.backend.retrieval.approximate import ApproximateIndex

            self._approximate = ApproximateIndex.open(study, self, approximate)
            self.settings |= {"approximate": self._approximate.manifest}

    @property
    def unit_length(self) -> bool:
        """Return whether the vectors have unit length, so that scores are cosines."""
        return self.manifest["unit_length"]

    def search(self, questions: Sequence[str], k: int, progress: Progress | None = None) -> Hits:
        return self.search_vectors(self.vectors_of(questions, progress), k, progress)

    def search_vectors(self, vectors: np.ndarray, k: int, progress: Progress | None = None) -> Hits:
        """Search with encoded questions (q, d) float32."""
        if self._approximate is not None:
            return self._approximate.search(vectors, k)
        return self._search.search(vectors, k, progress)

    def score_vectors(self, vectors: np.ndarray, ordinals: np.ndarray) -> np.ndarray:
        """Return the exact scores (q, m) float32 of passages (q, m) for encoded questions (q, d)."""
        return self._search.score(vectors, ordinals)

    @property
    def dense(self) -> Dense:
        """Return this object. Retrievers that wrap a dense index have the same attribute; see
        `question_vectors.cached_question_vectors`.
        """
        return self

    def vectors_of(self, questions: Sequence[str], progress: Progress | None = None) -> np.ndarray:
        """Return the vectors of questions, (q, d) float32, from the study's cache if they are stored there."""
        if self.kept_in is None:
            return self.encode(questions, progress)
        from blindspot.backend.retrieval.question_vectors import question_vectors

        return question_vectors(self.kept_in, self, questions, progress)

    def encode(self, questions: Sequence[str], progress: Progress | None = None) -> np.ndarray:
        """Encode questions. Return their vectors, (q, d) float32."""
        vectors = np.zeros((len(questions), self.manifest["dimension"]), np.float32)
        for start in range(0, len(questions), QUESTIONS_PER_STEP):
            if progress is not None:
                progress(start, len(questions), "encoding questions")
            part = slice(start, start + QUESTIONS_PER_STEP)
            vectors[part] = self.encoder.encode_questions(questions[part])
        return vectors

    @cached_property
    def encoder(self) -> Encoder:
        encoder = load_encoder(self.encoder_settings, self.device)
        self._check_model(encoder.describe())
        return encoder

    def _check_model(self, description: Mapping[str, Any]) -> None:
        for key in dict.fromkeys((*description, *VECTOR_SETTINGS)):
            value = description.get(key)
            if (self.manifest.get(key) if key in VECTOR_SETTINGS else self.manifest[key]) != value:
                raise Refused(
                    f"encoder {self.name!r} has changed since its index was made ({key}: {value!r}, in the index "
                    f"{self.manifest.get(key)!r}); run 'blindspot index dense --encoder {self.name}' again"
                )

    @cached_property
    def _search(self) -> ExactSearch:
        similarity = "l2" if self.manifest["similarity"] == "l2" else "dot"
        return ExactSearch(self.vectors, similarity, self.device)


@settings_class
class EncoderOptions:
    """Options for retrievers that search an encoder's vectors."""

    encoder: str = Field(
        "minilm", description="An encoder of study.toml", json_schema_extra={"ignored_elsewhere": True}
    )


@settings_class
class DenseOptions(EncoderOptions):
    approximate: Literal["hnsw", "ivfpq"] | None = Field(
        None, title="FAISS index", description="Search this FAISS index instead of all vectors"
    )


def dense_indexes(study: Study) -> list[str]:
    """Return the encoders of the finished dense indexes, oldest first."""
    return [name for name, manifest in study.parts("indexes").items() if manifest.get("kind") == KIND]


class EncoderKind(NamedKind):
    """Base class of kinds whose retrievers are named after an encoder: "KIND:ENCODER"."""

    option = "encoder"
    options: ClassVar[type] = EncoderOptions
    uses_torch = True
    extras: ClassVar[tuple[str, ...]] = ("dense",)

    def owns(self, name: str) -> bool:
        return name.startswith(f"{self.name}:")

    def parts(self, name: str) -> tuple[str, ...]:
        return (self.named(name),)

    def settings_of(self, settings: Settings, name: str) -> tuple:
        return (settings.encoders.get(self.named(name)),)


class DenseKind(EncoderKind):
    name, title = "dense", "dense"
    help = "exact search over an encoder's vectors"
    options = DenseOptions
    suggested = True

    def available(self, study: Study) -> list[str]:
        return [dense_name(encoder) for encoder in dense_indexes(study)]

    def owns(self, name: str) -> bool:
        is_plain = ":" not in name and not any(kind.owns(name) for kind in RETRIEVERS if kind is not self)
        return is_plain or super().owns(name)

    def name_of(self, options: Any) -> str:
        return dense_name(options.encoder)

    def retriever_of(self, manifest: Mapping[str, Any]) -> str:
        return dense_name(str(manifest["retriever"]))

    def open(self, study: Study, options: DenseOptions, device: str | None = None, part: OpenPart = None) -> Dense:
        return Dense(study, options.encoder, device, options.approximate)

    def index_files(self, study: Study, options: DenseOptions) -> list[Path]:
        if options.approximate is None:
            return super().index_files(study, options)
        return [study.path("indexes", options.encoder, f"faiss-{options.approximate}.index")]

    def run_name(self, options: DenseOptions) -> str:
        return f"{options.encoder}-{options.approximate}" if options.approximate else options.encoder

    def describe(self, manifest: Mapping[str, Any]) -> str:
        index = manifest.get("approximate")
        return f"dense, {manifest.get('retriever')}" + (f", {index['kind']}" if index else "")

    def options_of_run(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        kind = (manifest.get("approximate") or {}).get("kind")
        return super().options_of_run(manifest) | ({"approximate": kind} if kind else {})

    def steps(self, study: Study) -> list[Step]:
        encoder = next(iter(study.settings.encoders), None)
        if encoder is None or dense_indexes(study):
            return []
        return [
            Step(
                f"Dense retrieval needs the passages encoded with {encoder}.",
                f"blindspot index dense --encoder {encoder}",
                request(build_index, encoder),
            )
        ]


DENSE = DenseKind()
RETRIEVERS.register(DENSE)


def dense_name(encoder: str) -> str:
    """Return the name of an encoder's dense retriever: the encoder's name, or "dense:ENCODER" if another retriever has
    that name.
    """
    return encoder if DENSE.owns(encoder) else f"{DENSE.name}:{encoder}"
