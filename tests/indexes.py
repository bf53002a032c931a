"""What the processes of one run of tests make once and share: Java starts for an index, and a network is loaded for vectors."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from blindspot.backend.core.settings import add_encoder
from blindspot.backend.core.study import Study
from blindspot.backend.retrieval import bm25, dense
from tests.lanes import SHARED
from tests.studies import births, make_study, people, tiny_bert


def once(name: str, make: Callable[[Path], object]) -> Path:
    """Return a folder that the first process to ask makes, and that the others wait for. Nobody writes to it."""
    folder = Path(os.environ[SHARED]) / name
    made = folder.with_name(f"{name}.made")
    with open(folder.with_name(f"{name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            shutil.rmtree(folder, ignore_errors=True)
            make(folder)
            made.touch()
    return folder


def bm25_of(study: Study) -> None:
    """Give the study a BM25 index: built once for each collection of a run of tests, and copied."""
    own = study.path("indexes", bm25.NAME)

    def build(folder: Path) -> None:
        bm25.build_index(study, threads=1)
        shutil.copytree(own, folder)

    built = once(f"bm25-{study.corpus.digest}", build)
    if not own.exists():
        shutil.copytree(built, own)


def indexed_study(folder: Path) -> None:
    """60 passages, 40 questions, a BM25 index and a dense index of a tiny encoder named `tiny`."""
    passages = people()
    study = make_study(folder, passages, births(passages))
    tiny_bert(study.folder / "models" / "tiny")
    add_encoder(
        study.settings_path,
        "tiny",
        {"model": str(study.folder / "models" / "tiny"), "pooling": "cls", "max_tokens": 64},
    )
    bm25_of(study)
    dense.build_index(study, "tiny", device="cpu")
