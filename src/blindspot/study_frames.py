"""`blindspot.Study`: one study, with its parts as pandas DataFrames."""

from __future__ import annotations

from blindspot.additions import StudyAdditions
from blindspot.contents import StudyContents
from blindspot.measuring import StudyMeasures
from blindspot.training import StudyTraining


class StudyFrames(StudyContents, StudyAdditions, StudyMeasures, StudyTraining):
    """An open study.

    Attributes:
        study: the underlying study, for everything that has no method here. Its functions are not a stable interface.
    """
