"""Dense retrieval with Milvus: an encoder's vectors are stored in a collection of a Milvus server or cluster, which
does the search.

Milvus returns candidates, and this module computes their scores again with the stored float16 vectors. The scores are
therefore those of exact search, and ties are ordered by row, regardless of the server's index. A passage that the
server's index does not find is not recovered.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from blindspot.backend.core.consent import require_consent
from blindspot.backend.core.declared import named_settings
from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import read_json, write_json
from blindspot.backend.core.study import Study
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.dense import Dense, EncoderKind, EncoderOptions, dense_indexes, dense_name
from blindspot.backend.retrieval.faiss_options import MilvusSettings
from blindspot.backend.retrieval.retriever import RETRIEVERS, OpenPart, search_in_blocks, top_k
from blindspot.db.errors import BlindspotError, Missing, Refused
from blindspot.db.records import Hits

FILE = "milvus.json"
PORT = 19530
KEY, VECTOR = "ordinal", "vector"
INDEXES = ("FLAT", "HNSW", "IVF_FLAT", "IVF_PQ", "IVF_SQ8", "SCANN", "DISKANN", "GPU_CAGRA", "GPU_IVF_FLAT", "GPU_IVF_PQ",
           "GPU_BRUTE_FORCE", "AUTOINDEX")  # fmt: skip
BYTES_PER_INSERT = 1 << 23  # Milvus limits messages to 64 MB; nearly all of it is vectors
QUESTIONS_PER_CALL = 64
MARGIN = 32  # hits fetched beyond k and scored exactly
LARGEST_K = 16_384  # Milvus's own limit, and the limit of its GPU indexes:
LARGEST_K_ON_GPU = 1024
SECONDS, SECONDS_TO_WRITE, SECONDS_BETWEEN_LOOKS = 30.0, 300.0, 1.0
UNCONNECTED = "Fail connecting to server"  # what the client says of a dead server, and of a wrong key
HALVES_SINCE = (2, 4)  # the first version with FLOAT16_VECTOR; one before it accepts such a collection and then ends
# ms between pings: the server of a file hangs up on a client that pings it every 10 s, pymilvus' default
NEVER = 2**31 - 1


@job("index milvus", extras=("milvus",))
@named_settings(MilvusSettings)
def build(
    study: Study,
    encoder: str,
    uri: str,
    settings: MilvusSettings,
    *,
    parameters: dict | None = None,
    progress: Progress | None = None,
) -> dict:
    """Fill a Milvus collection with the vectors of `encoder`. Writes and returns a record of the collection.

    An interrupted build resumes after the rows that the server already holds. At the end, the function checks the
    number of rows and waits until the server has built its index.

    Args:
        uri: http://host:19530, or a file (*.db) for the embedded milvus-lite.
        parameters: of the server's index, as in {"M": 32, "efConstruction": 200}.

    Raises Refused for a collection that holds other vectors and for l2 similarity, and BlindspotError if Milvus is down
    or the number of rows is wrong.
    """
    index, replicas = settings.index, settings.replicas
    if index not in INDEXES:
        raise Refused(f"--index must be one of {', '.join(INDEXES)}, not {index!r}")
    uri = absolute_uri(uri)
    dense, started = Dense(study, encoder), time.monotonic()
    if dense.manifest["similarity"] == "l2":
        raise Refused(
            f"{encoder!r} uses l2 similarity, but Milvus collections use inner products here; use 'blindspot "
            "index faiss'"
        )
    print_of = f"{dense.manifest['corpus']}-{dense.manifest['made']}-{dense.manifest['model_hash']}"
    name = settings.collection or re.sub(r"\W", "_", f"blindspot_{encoder}_{dense.manifest['corpus'][:12]}")
    with study.lock_part(f"indexes/{encoder}-milvus"), one_line(uri):
        client = connect(study, uri)
        halves = supports_float16(client.get_server_version(), index, _is_embedded(uri))
        fresh = _prepare_collection(client, name, dense, print_of, index, parameters or {}, settings.replace, halves)
        client.load_collection(name, replica_number=replicas)
        n_present = 0 if fresh else count_vectors(client, name)
        _insert_vectors(client, name, dense, n_present, progress)
        if not _is_embedded(uri):
            _wait_for_index(client, name, progress)
            client.release_collection(name)
            client.load_collection(name, replica_number=replicas)
        record = {
            "uri": uri,
            "collection": name,
            "index": index,
            "parameters": parameters or {},
            "replicas": replicas,
            "passages": len(dense.vectors),
            "corpus": dense.manifest["corpus"],
            "vectors": dense.manifest["made"],
            "model_hash": dense.manifest["model_hash"],
            "server": client.get_server_version(),
            "seconds": round(time.monotonic() - started, 1),
        }
        client.close()
    write_json(study.path("indexes", encoder, FILE), record)
    return record


class Milvus:
    """A filled collection as a retriever. Questions are encoded in this process.

    Args:
        dense: the encoder's dense index, if the caller has opened it.

    Raises Missing if there is no filled collection, and Refused if the collection was filled with other vectors.
    """

    def __init__(self, study: Study, encoder: str, device: str | None = None, dense: Dense | None = None):
        self._study, self.dense = study, dense or Dense(study, encoder, device)
        path = study.path("indexes", encoder, FILE)
        if not path.is_file():
            raise Missing(
                f"no Milvus collection for {encoder!r}; run 'blindspot index milvus --encoder {encoder} --uri URI'"
            )
        self.record = read_json(path)
        ours = self.dense.manifest
        made_from = {"vectors": ours["made"], "corpus": ours["corpus"], "model_hash": ours["model_hash"]}
        if any(self.record[key] != value for key, value in made_from.items()):
            raise Refused(
                f"the Milvus collection of {encoder!r} was filled with other vectors; run 'blindspot index milvus "
                f"--encoder {encoder} --uri {self.record['uri']} --replace'"
            )
        self.name = f"{encoder}-milvus"
        self.settings = {
            **self.dense.settings,
            "retriever": self.name,
            "kind": "milvus",
            "milvus": {key: self.record[key] for key in ("collection", "index", "parameters", "server")},
        }

    def search(self, questions: Sequence[str], k: int, progress: Progress | None = None) -> Hits:
        return self.search_vectors(self.dense.vectors_of(questions, progress), k, progress)

    def search_vectors(self, vectors: np.ndarray, k: int, progress: Progress | None = None) -> Hits:
        """Search with encoded questions (q, d) float32."""
        largest = LARGEST_K_ON_GPU if self.record["index"].startswith("GPU_") else LARGEST_K
        if k > largest:
            raise Refused(f"k is {k:,}, but a Milvus index {self.record['index']} returns at most {largest:,} hits")
        n_candidates = min(k + MARGIN, largest, self.record["passages"])

        def search_block(block: slice) -> Hits:
            asked = np.ascontiguousarray(vectors[block], np.float32)
            ordinals = np.full((len(asked), n_candidates), -1, np.int32)
            for row, hits in enumerate(self._search_rows(asked, n_candidates)):
                ordinals[row, : len(hits)] = hits
            if ordinals.max(initial=-1) >= self.record["passages"]:
                raise Refused(
                    f"the Milvus collection {self.record['collection']} contains passages that are not in this study"
                )
            return top_k(ordinals, self.dense.score_vectors(asked, ordinals), k)

        return search_in_blocks(vectors, k, QUESTIONS_PER_CALL, search_block, (progress, "searching with Milvus"))

    def _search_rows(self, vectors: np.ndarray, count: int) -> list[list[int]]:
        with one_line(self.record["uri"]):
            half = self._dtype == "FLOAT16_VECTOR"
            answer = self._client.search(
                self.record["collection"],
                data=list(vectors.astype(np.float16) if half else vectors),
                anns_field=VECTOR,
                limit=count,
                output_fields=[KEY],
                timeout=SECONDS,
                search_params={"metric_type": "IP", "params": _search_parameters(self.record, count)},
            )
        return [[int(hit[KEY]) for hit in hits] for hits in answer]

    @cached_property
    def _client(self) -> Any:
        client = connect(self._study, self.record["uri"])
        name = self.record["collection"]
        if not client.has_collection(name):
            raise Missing(
                f"Milvus at {self.record['uri']} no longer has a collection {name}; run 'blindspot index milvus' again"
            )
        client.load_collection(name, replica_number=self.record["replicas"])
        if (n_present := count_vectors(client, name)) != self.record["passages"]:
            raise Refused(
                f"the Milvus collection {name} has {n_present:,} vectors, not {self.record['passages']:,}; fill it "
                "again with 'blindspot index milvus --replace'"
            )
        return client

    @cached_property
    def _dtype(self) -> str:
        fields = self._client.describe_collection(self.record["collection"])["fields"]
        return next(field["type"].name for field in fields if field["name"] == VECTOR)


def count_vectors(client: Any, collection: str) -> int:
    """Return the number of vectors in a loaded collection, including those just inserted."""
    answer = client.query(collection, output_fields=["count(*)"], consistency_level="Strong", timeout=SECONDS)
    return int(answer[0]["count(*)"])


def _search_parameters(record: dict, count: int) -> dict:
    """Return the search parameters needed to get `count` hits. Other parameters keep the server's defaults."""
    if record["index"] == "HNSW":
        return {"ef": max(128, count)}
    if record["index"] == "DISKANN":
        return {"search_list": max(100, count)}
    if "IVF" in record["index"] or record["index"] == "SCANN":
        return {"nprobe": min(64, record["parameters"].get("nlist", 128))}
    return {"itopk_size": max(128, count)} if record["index"] == "GPU_CAGRA" else {}


def _prepare_collection(
    client: Any,
    name: str,
    dense: Dense,
    source_hash: str,
    index: str,
    parameters: dict,
    replace: bool,
    use_float16: bool,
) -> bool:
    """Create the collection if it does not exist, and return whether it is new. The source of its vectors is recorded
    in its properties.
    """
    from pymilvus import DataType

    if client.has_collection(name):
        if not replace:
            properties = client.describe_collection(name).get("properties", {})
            if properties.get("blindspot.vectors") == source_hash:
                return False
            raise Refused(
                f"Milvus already has a collection {name} with other data; choose another name with --collection, or "
                "drop it with --replace"
            )
        client.drop_collection(name)
    schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field(KEY, DataType.INT64, is_primary=True)
    kind = DataType.FLOAT16_VECTOR if use_float16 else DataType.FLOAT_VECTOR
    schema.add_field(VECTOR, kind, dim=int(dense.vectors.shape[1]))
    indexed = client.prepare_index_params()
    indexed.add_index(VECTOR, index_type=index, metric_type="IP", params=parameters)
    client.create_collection(name, schema=schema, index_params=indexed, properties={"blindspot.vectors": source_hash})
    return True


def _insert_vectors(client: Any, name: str, dense: Dense, first_row: int, progress: Progress | None) -> None:
    """Insert the rows from row `first_row` on, in order. A partly inserted block is sent again, and its rows replace the
    earlier copies. Raises BlindspotError if rows are missing at the end.
    """
    vectors, per_insert = dense.vectors, max(1, BYTES_PER_INSERT // (4 * dense.vectors.shape[1]))
    fields = client.describe_collection(name)["fields"]
    kind = np.float16 if any(field["type"].name == "FLOAT16_VECTOR" for field in fields) else np.float32
    begin = first_row if first_row >= len(vectors) else first_row // per_insert * per_insert
    for start in range(begin, len(vectors), per_insert):
        block = np.asarray(vectors[start : start + per_insert], kind)
        put = client.upsert if start < first_row else client.insert  # an upsert costs far more than an insert
        put(name, [{KEY: start + row, VECTOR: vector} for row, vector in enumerate(block)], timeout=SECONDS_TO_WRITE)
        if progress is not None:
            progress(start + len(block), len(vectors), "filling the Milvus collection")
    client.flush(name, timeout=SECONDS_TO_WRITE)
    if (n_present := count_vectors(client, name)) != len(vectors):
        raise BlindspotError(
            f"the collection {name} has {n_present:,} of {len(vectors):,} vectors; fill it again with --replace"
        )


def _wait_for_index(client: Any, name: str, progress: Progress | None) -> None:
    """Wait until the server has indexed all rows. Before that, the server searches a coarse temporary index with much
    lower recall. Its field "state" is Finished all the time, so the number of indexed rows is checked instead.
    """
    while True:
        about = client.describe_index(name, VECTOR)
        total, pending = int(about["total_rows"]), int(about["pending_index_rows"])
        if progress is not None:
            progress(total - pending, total, "the server builds its index")
        if not pending:
            return
        time.sleep(SECONDS_BETWEEN_LOOKS)


def supports_float16(version: str, index: str, is_embedded: bool) -> bool:
    """Return whether a server of this version supports 16-bit vectors with this index ("v2.3.5-lite" is version 2.3).

    milvus-lite and GPU indexes do not support them. A version that cannot be parsed is treated as an old one, because
    every version supports 32-bit vectors.
    """
    found = re.match(r"v?(\d+)\.(\d+)", version)
    recent = found is not None and (int(found[1]), int(found[2])) >= HALVES_SINCE
    return recent and not is_embedded and not index.startswith("GPU_")


def absolute_uri(uri: str) -> str:
    """Return the address of a server, or the absolute path of an embedded file. Raises Refused for any other text."""
    _check_address(uri)
    return str(Path(uri).absolute()) if _is_embedded(uri) else uri


def _is_embedded(uri: str) -> bool:
    return "://" not in uri


def with_port(uri: str) -> str:
    """Return an address with the port that the client would use by default, so that the consent includes that port."""
    parts = urlsplit(uri)
    known = not parts.netloc or re.search(r":\d+$", parts.netloc) or parts.scheme == "https"
    return uri if known else uri.replace(parts.netloc, f"{parts.netloc}:{PORT}", 1)


def _check_address(uri: str) -> None:
    parts = urlsplit(uri)
    if parts.username or parts.password:
        raise Refused(
            "put user:password of Milvus into an environment variable, not into the address, which the study records; "
            "name the variable with 'blindspot consent give URI --key-variable NAME'"
        )
    if _is_embedded(uri) and not uri.endswith(".db"):
        raise Refused(
            "--uri must be an address such as http://localhost:19530, or a file that ends in .db (milvus-lite), "
            f"not {uri!r}"
        )


def connect(study: Study, uri: str) -> Any:
    """Return a client. Raises NeedsConsent for a server without a person's consent, and Missing if pymilvus is not
    installed.
    """
    _check_address(uri)
    import logging

    from pymilvus import MilvusClient

    key = ""
    if not _is_embedded(uri):
        uri = with_port(uri)
        what = "searching with Milvus would send vectors of questions or passages"
        key = require_consent(study, uri, what).key
    # pymilvus logs each error that it raises, with its traceback
    logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
    quiet = {"grpc_options": {"grpc.keepalive_time_ms": NEVER}} if _is_embedded(uri) else {}
    return MilvusClient(uri, token=key, timeout=SECONDS, **quiet)


def _is_listening(uri: str) -> bool:
    parts = urlsplit(with_port(uri))
    try:
        socket.create_connection((parts.hostname, parts.port or 443), timeout=5).close()
    except OSError:
        return False
    return True


@contextmanager
def one_line(uri: str) -> Iterator[None]:
    """Turn errors of Milvus and its client into errors with one-line messages."""
    try:
        yield
    except BlindspotError:
        raise
    except Exception as error:
        module = type(error).__module__.split(".")[0]
        if module not in ("pymilvus", "grpc", "milvus_lite") and not isinstance(error, (ConnectionError, TimeoutError)):
            raise
        message = " ".join(str(getattr(error, "message", error)).split())
        if not _is_embedded(uri) and not _is_listening(uri):
            message = "does not answer; is it running?"
        elif message.startswith(UNCONNECTED):
            message = "answers, but refuses the client; is its key right (blindspot consent list)?"
        else:
            message = f"failed: {message[:300]}"
        raise BlindspotError(f"Milvus at {uri} {message}") from error


class MilvusKind(EncoderKind):
    name, title = "milvus", "Milvus"
    help = "an encoder's vectors in a Milvus collection"
    extras = ("dense", "milvus")

    def available(self, study: Study) -> list[str]:
        return [f"{self.name}:{name}" for name in dense_indexes(study) if study.path("indexes", name, FILE).is_file()]

    def open(self, study: Study, options: EncoderOptions, device: str | None = None, part: OpenPart = None) -> Milvus:
        return Milvus(study, options.encoder, device, None if part is None else part(dense_name(options.encoder)))

    def files(self, study: Study, name: str) -> list[Path]:
        return [*super().files(study, name), study.path("indexes", self.named(name), FILE)]

    def run_name(self, options: EncoderOptions) -> str:
        return f"{options.encoder}-milvus"

    def describe(self, manifest: Mapping[str, Any]) -> str:
        return f"dense, {_encoder_of(manifest)}, in Milvus"

    def retriever_of(self, manifest: Mapping[str, Any]) -> str:
        return f"{self.name}:{_encoder_of(manifest)}"


def _encoder_of(manifest: Mapping[str, Any]) -> str:
    """Return the encoder of a run, from the name in its manifest such as "minilm-milvus"."""
    return str(manifest["retriever"]).removesuffix("-milvus")


RETRIEVERS.register(MilvusKind())
