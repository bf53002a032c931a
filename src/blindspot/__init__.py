"""Blindspot in Python: studies as pandas DataFrames, for notebooks and scripts.

    import blindspot

    study = blindspot.Study.open("demo")
    study.report(measures=["ndcg"], ks=[10])
    compared = study.compare("bm25-dev", "minilm-dev", k=5)
    compared.attrs["conclusion"]

Every figure comes from the functions behind the `blindspot` command. `docs/python.md` describes each method.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from blindspot.backend.core.extras import explain_missing_imports
from blindspot.db.errors import BadInput, BlindspotError, Missing, Refused

if TYPE_CHECKING:
    from blindspot.backend.checking.check import Check
    from blindspot.reranker import Reranker
    from blindspot.study_frames import StudyFrames as Study

__all__ = ["BadInput", "BlindspotError", "Missing", "Refused", "Reranker", "Study", "check"]

explain_missing_imports()


def check(data: Any, study: str | None = None) -> Check:
    """Check training data: a file, a `datasets.Dataset` or a DataFrame. See docs/check.md.

    Args:
        study: Folder of the study that is made of it; default FILE.check, and a temporary folder for data in memory.

    Raises BadInput for data of no known form.
    """
    from blindspot.backend.checking.check import check as check_data

    return check_data(data, study)


def __getattr__(name: str) -> object:
    """Import `Study` and `Reranker` only when they are used, because the command imports this module too, and `--help`
    needs no numpy.
    """
    if name == "Reranker":
        from blindspot.reranker import Reranker

        return Reranker
    if name != "Study":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from blindspot.study_frames import StudyFrames

    return StudyFrames
