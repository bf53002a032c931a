"""Blindspot in Python: studies as pandas DataFrames, for notebooks and scripts.

    import blindspot

    study = blindspot.Study.open("demo")
    study.report(measures=["ndcg"], ks=[10])
    compared = study.compare("bm25-dev", "minilm-dev", k=5)
    compared.attrs["conclusion"]

Every figure comes from the functions behind the `blindspot` command. `docs/python.md` describes each method.
"""

from typing import TYPE_CHECKING

from blindspot.backend.core.extras import explain_missing_imports
from blindspot.db.errors import BadInput, BlindspotError, Missing, Refused

if TYPE_CHECKING:
    from blindspot.study_frames import StudyFrames as Study

__all__ = ["BadInput", "BlindspotError", "Missing", "Refused", "Study"]

explain_missing_imports()


def __getattr__(name: str) -> object:
    """Import `Study` when it is asked for: the command imports this module too, and `--help` needs no numpy."""
    if name != "Study":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from blindspot.study_frames import StudyFrames

    return StudyFrames
