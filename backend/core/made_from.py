"""Recognise studies that were made from a training file. The app guides people through them differently."""

from __future__ import annotations

from blindspot.backend.core.study import Study

CHECK = "check"  # the folder of a check in its study


def is_check(study: Study) -> bool:
    """Return whether a study was made from a training file."""
    return (study.folder / CHECK / "manifest.json").is_file()
