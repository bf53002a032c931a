"""Blindspot in Python: studies as pandas DataFrames, for notebooks and scripts.

    import blindspot

    study = blindspot.Study.open("demo")
    study.report(measures=["ndcg"], ks=[10])
    compared = study.compare("bm25-dev", "minilm-dev", k=5)
    compared.attrs["conclusion"]

Every figure comes from the functions behind the `blindspot` command. `docs/python.md` describes each method.
"""

from blindspot.backend.core.extras import explain_missing_imports
from blindspot.db.errors import BadInput, BlindspotError, Missing, Refused
from blindspot.study_frames import StudyFrames as Study

explain_missing_imports()

__all__ = ["BadInput", "BlindspotError", "Missing", "Refused", "Study"]
