"""The answers of version 1 by subject, each with an example. OpenAPI and the documentation page show them."""

from blindspot.backend.service.v1.answers.analyses import (
    ComparisonAnswer,
    PairedAnswer,
    SavedSliceAnswer,
    SavedSlicesAnswer,
    SlicesAnswer,
    WhyAnswer,
)
from blindspot.backend.service.v1.answers.contents import PassageAnswer, QuestionAnswer, QuestionsAnswer, StudyAnswer
from blindspot.backend.service.v1.answers.jobs import JobAnswer, JobKindsAnswer, JobsAnswer, LogAnswer
from blindspot.backend.service.v1.answers.labels import (
    JudgementsAnswer,
    LabelsAnswer,
    MachinesAnswer,
    QueueAnswer,
    ReceiptsAnswer,
)
from blindspot.backend.service.v1.answers.searches import (
    FoundAnswer,
    HitsAnswer,
    LiveAnswer,
    RunAnswer,
    RunsAnswer,
    UploadAnswer,
)

__all__ = [
    "ComparisonAnswer",
    "FoundAnswer",
    "HitsAnswer",
    "JobAnswer",
    "JobKindsAnswer",
    "JobsAnswer",
    "JudgementsAnswer",
    "LabelsAnswer",
    "LiveAnswer",
    "LogAnswer",
    "MachinesAnswer",
    "PairedAnswer",
    "PassageAnswer",
    "QuestionAnswer",
    "QuestionsAnswer",
    "QueueAnswer",
    "ReceiptsAnswer",
    "RunAnswer",
    "RunsAnswer",
    "SavedSliceAnswer",
    "SavedSlicesAnswer",
    "SlicesAnswer",
    "StudyAnswer",
    "UploadAnswer",
    "WhyAnswer",
]
