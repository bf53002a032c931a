"""The demo study: an invented encyclopedia with everything that the app can show, such as runs, labels, training sets
and trained models.
"""

from __future__ import annotations

from blindspot.backend.core.study import Study
from blindspot.db.people import SIMULATED

SOURCE = "encyclopedia"
"""The folder in the study that holds a copy of the demo's files."""
ABOUT = "about.json"
ANNOTATORS = {f"Ada{SIMULATED}": 0.96, f"Ben{SIMULATED}": 0.90}
"""The simulated annotators: each name with the share of its labels that are right."""


def is_demo(study: Study) -> bool:
    """Return whether `blindspot demo` made this study."""
    return (study.path(SOURCE) / ABOUT).is_file()
