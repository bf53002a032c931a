"""The study of the real data for several benchmarks: 100,000 passages, both indexes, three runs over the questions of
dev.

python -m benchmarks.study FOLDER
"""

from __future__ import annotations

import argparse
from pathlib import Path

from blindspot.backend.core.study import Study
from tests.conftest import REAL_DATA


def real_study(folder: Path) -> Study:
    """Return the real data, imported and indexed for BM25 and dense retrieval."""
    from blindspot.backend.data.importing.importer import import_passages, import_questions
    from blindspot.backend.retrieval import bm25, dense

    study = Study.create(folder)
    import_passages(study, REAL_DATA / "passages_100k.tsv.xz")
    import_questions(study, REAL_DATA / "questions.jsonl.xz")
    bm25.build_index(study)
    dense.build_index(study, "minilm", vectors=REAL_DATA / "minilm_passages.npy")
    return study


def study_with_runs(folder: Path) -> Study:
    from blindspot.backend.retrieval.retrieve import retrieve

    study = real_study(folder)
    for kind in ("bm25", "dense", "hybrid"):
        retrieve(study, kind, split="dev")
    return study


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    study_with_runs(parser.parse_args().folder)
