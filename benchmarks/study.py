"""The study of the real data for several benchmarks: 100,000 passages, both indexes, three runs over the questions of
dev.

python -m benchmarks.study FOLDER
"""

from __future__ import annotations

import argparse
from pathlib import Path

from blindspot.backend.core.study import Study


def study_with_runs(folder: Path) -> Study:
    from benchmarks.retrieval import real_study
    from blindspot.backend.retrieval.retrieve import retrieve

    study = real_study(folder)
    for kind in ("bm25", "dense", "hybrid"):
        retrieve(study, kind, split="dev")
    return study


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    study_with_runs(parser.parse_args().folder)
