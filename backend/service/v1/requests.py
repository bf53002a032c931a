"""The request types of version 1, with bounds and examples."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from blindspot.backend.service.job_requests import MAX_ARGUMENTS
from blindspot.db.events import MAX_CHOICES, MAX_ID, MAX_NOTE, Kind, Label, QueueKind

MAX_EVENTS = 200
MAX_ITEMS = 200
MAX_LIVE = 64
Id = Annotated[str, Field(min_length=1, max_length=256)]
ClientId = Annotated[
    str,
    Field(min_length=1, max_length=MAX_ID, description="Chosen by you. If you send an event again, send the same id."),
]


def closed_config(example: Any) -> ConfigDict:
    """Return the configuration of a model that forbids additional fields and has this example."""
    return ConfigDict(extra="forbid", json_schema_extra={"example": example})


class LiveRequest(BaseModel):
    """Questions of your own for one retriever."""

    model_config: ClassVar[ConfigDict] = closed_config(
        {"retriever": "bm25", "questions": ["Where was Arve Furset born?"], "k": 10}
    )
    retriever: Annotated[str, Field(max_length=80, description="Name of a retriever, from /retrievers.")]
    questions: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=2000, pattern=r"\S")]],
        Field(min_length=1, max_length=MAX_LIVE),
    ]
    k: Annotated[int, Field(ge=1, le=1000, description="Number of passages per question.")] = 10


class ChoiceItem(BaseModel):
    """A passage with its label; in a note, without one."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")
    passage: Id
    label: Label | None = None


class LabelItem(BaseModel):
    """One event of a person: label, adjudicate, note, bad_question or undo; in a batch also finish, skip or reopen."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")
    id: ClientId
    kind: Kind | QueueKind
    question: Id
    choices: Annotated[list[ChoiceItem], Field(max_length=MAX_CHOICES)] = []
    note: Annotated[str | None, Field(max_length=MAX_NOTE)] = None
    undoes: Annotated[str | None, Field(max_length=MAX_ID, description="For undo: the id of the event to undo.")] = None
    batch: Annotated[str | None, Field(max_length=MAX_ID, description="The batch that gave you the question.")] = None
    milliseconds: Annotated[int | None, Field(ge=0, description="Time since the passage was shown.")] = None


class LabelsRequest(BaseModel):
    """Events of a person, stored in this order."""

    model_config: ClassVar[ConfigDict] = closed_config(
        {
            "events": [
                {
                    "id": "a1",
                    "kind": "label",
                    "question": "eq-P19-1",
                    "choices": [{"passage": "77", "label": "negative"}],
                }
            ]
        }
    )
    events: Annotated[list[LabelItem], Field(min_length=1, max_length=MAX_EVENTS)]


class QueueRequest(BaseModel):
    """How many questions you want to hold."""

    model_config: ClassVar[ConfigDict] = closed_config({"count": 3})
    count: Annotated[int, Field(ge=1, le=10)] = 1


class MachineQuestion(BaseModel):
    """A machine's labels of the passages of one question."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")
    id: ClientId
    question: Id
    labels: Annotated[dict[Id, Label], Field(min_length=1, max_length=MAX_CHOICES, description="By passage.")]


class JudgementsRequest(BaseModel):
    """Labels of a machine annotator, stored all or none. They count for no consensus of people."""

    model_config: ClassVar[ConfigDict] = closed_config(
        {"machine": "umbrela", "items": [{"id": "u1", "question": "eq-P19-1", "labels": {"77": "negative"}}]}
    )
    machine: Annotated[
        str, Field(min_length=1, max_length=MAX_ID, description="If the name is new, a machine annotator is added.")
    ]
    items: Annotated[list[MachineQuestion], Field(min_length=1, max_length=MAX_ITEMS)]


class SliceRequest(BaseModel):
    """A slice to save."""

    model_config: ClassVar[ConfigDict] = closed_config(
        {"expression": "relation:P19 and not bucket:0", "replace": False}
    )
    expression: Annotated[str, Field(min_length=1, max_length=2000)]
    replace: bool = False


class JobStart(BaseModel):
    """A job to start; /v1/job-kinds lists the kinds and their arguments."""

    model_config: ClassVar[ConfigDict] = closed_config(
        {"kind": "retrieve", "arguments": {"kind": "bm25", "split": "dev"}}
    )
    id: Annotated[
        ClientId | None,
        Field(description="Chosen by you. If you send the same job again, send the same id: the job is started once."),
    ] = None
    kind: Annotated[str, Field(max_length=80)]
    arguments: Annotated[
        dict[str, Any], Field(max_length=50, description=f"At most {MAX_ARGUMENTS:,} characters as JSON.")
    ] = {}
