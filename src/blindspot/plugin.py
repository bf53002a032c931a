"""The names that a plug-in imports: everything that a retriever, format, judge, denoising policy or export of an
installed package needs. These names are stable; modules below `blindspot.backend` may move at any time.

`docs/extend/` has a page for each kind, and `blindspot.testing` checks a plug-in against the rules of its kind.
"""

from blindspot.backend.core.declared import Field, settings_class
from blindspot.backend.core.study import Study
from blindspot.backend.data.formats.base import (
    Context,
    Format,
    Head,
    ImportedQuestion,
    Options,
    Paragraph,
    PassageBatch,
    Qrel,
    RunEntry,
    WriteResult,
)
from blindspot.backend.judges.judge import Judge, JudgeCard, JudgeKind
from blindspot.backend.judges.pair_judge import PairJudge
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.retriever import NoOptions, Retriever, RetrieverKind
from blindspot.backend.training_sets.denoising import (
    Decision,
    DenoisingPolicy,
    PassageEvidence,
    ScoreCeiling,
    Thresholds,
)
from blindspot.backend.training_sets.exports.base import ExportFormat, ExportRow, ExportRows, write_lines
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.records import Hits, Passage, Question

__all__ = [
    "BadInput",
    "Context",
    "Decision",
    "DenoisingPolicy",
    "ExportFormat",
    "ExportRow",
    "ExportRows",
    "Field",
    "Format",
    "Head",
    "Hits",
    "ImportedQuestion",
    "Judge",
    "JudgeCard",
    "JudgeKind",
    "Missing",
    "NoOptions",
    "Options",
    "PairJudge",
    "Paragraph",
    "Passage",
    "PassageBatch",
    "PassageEvidence",
    "Progress",
    "Qrel",
    "Question",
    "Refused",
    "Retriever",
    "RetrieverKind",
    "RunEntry",
    "ScoreCeiling",
    "Study",
    "Thresholds",
    "WriteResult",
    "settings_class",
    "write_lines",
]
