"""Recognise studies that were made from a training file or from a retriever's log. The app guides people through them
differently.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blindspot.backend.core.study import Study

CHECK = "check"  # the folder of a check in its study
LOGGED = "log"  # what the manifest of a log's run calls its retriever


def is_check(study: Study) -> bool:
    """Return whether a study was made from a training file."""
    return (study.folder / CHECK / "manifest.json").is_file()


def log_run_name(study: Study, runs: Mapping[str, Mapping[str, Any]] | None = None) -> str | None:
    """Return the name of the run that was imported from a retriever's log, or None. runs: the manifests of the study's
    runs, if the caller has them.
    """
    known = study.parts("runs") if runs is None else runs
    return next((name for name, about in known.items() if about.get("retriever") == LOGGED), None)
