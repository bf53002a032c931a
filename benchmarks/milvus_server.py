"""A study's vectors in a real Milvus server: seconds to fill, and how much of the exact lists each index finds.

    python -m benchmarks.milvus_server STUDY --uri http://127.0.0.1:19530 [--encoder minilm] [--indexes FLAT HNSW IVF_SQ8]

The study needs a dense index and consent for the server (`blindspot consent give`). The wheel `milvus` has a standalone server:
`milvus-server --data DIR`. Each index is filled anew, into a collection that the benchmark drops at its end.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from benchmarks.ivfpq import queries_of
from benchmarks.machine import machine
from blindspot.backend.core.study import Study
from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.retrieval.milvus import Milvus, build, connect

PARAMETERS = {"HNSW": {"M": 32, "efConstruction": 200}, "IVF_SQ8": {"nlist": 1024}, "IVF_PQ": {"nlist": 1024, "m": 48}}
"""The settings of an index; FLAT has none."""
COLLECTION = "blindspot_benchmark"
K = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path)
    parser.add_argument("--uri", required=True)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--indexes", nargs="+", default=["FLAT", "HNSW", "IVF_SQ8"])
    given = parser.parse_args()
    study = Study.open(given.study)
    dense = Dense(study, given.encoder)
    queries = queries_of(study, dense)
    exact = dense.search_vectors(queries, K).ordinals
    print(f"{machine()}; {len(dense.vectors):,} vectors, {len(queries)} queries")
    print("| index | server | rows/s | of the exact 20 | of the exact 100 | ms a query |\n|---|---|---|---|---|---|")
    for index in given.indexes:
        record = build(study, given.encoder, given.uri, COLLECTION, index, PARAMETERS.get(index), replace=True)
        milvus = Milvus(study, given.encoder, dense=dense)
        milvus.search_vectors(queries[:8], K)  # loads the collection
        started = time.monotonic()
        found = milvus.search_vectors(queries, K).ordinals
        seconds = time.monotonic() - started
        shares = [_share(found[:, :k], exact[:, :k]) for k in (20, 100)]
        cells = [
            index,
            record["server"],
            f"{record['passages'] / record['seconds']:,.0f}",
            *(f"{share:.4f}" for share in shares),
        ]
        print(f"| {' | '.join(cells)} | {1000 * seconds / len(queries):.1f} |", flush=True)
    connect(study, given.uri).drop_collection(COLLECTION)


def _share(found: np.ndarray, exact: np.ndarray) -> float:
    return float(np.mean([len(set(ours) & set(best)) / len(best) for ours, best in zip(found, exact, strict=True)]))


if __name__ == "__main__":
    main()
