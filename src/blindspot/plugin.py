"""The names that a retriever of an installed package imports (docs/extend/retriever.md). These names are stable; modules
below `blindspot.backend` may move at any time.
"""

from blindspot.backend.core.declared import Field, settings_class
from blindspot.backend.core.study import Study
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.retriever import NoOptions, Retriever, RetrieverKind
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.records import Hits, Passage, Question

__all__ = [
    "BadInput",
    "Field",
    "Hits",
    "Missing",
    "NoOptions",
    "Passage",
    "Progress",
    "Question",
    "Refused",
    "Retriever",
    "RetrieverKind",
    "Study",
    "settings_class",
]
