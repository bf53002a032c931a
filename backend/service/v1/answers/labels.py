"""The answers on judging: labels, consensus, the queue, and machine annotators."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from blindspot.backend.service.v1.answers.parts import PageAnswer, example
from blindspot.db.events import Label
from blindspot.db.judgements import Consensus, Judgement


class LabelsAnswer(BaseModel):
    """The labels of a question's passages that you may see."""

    model_config: ClassVar[ConfigDict] = example(
        {
            "question": "eq-P19-1",
            "labels": [
                {
                    "number": 7,
                    "question": "eq-P19-1",
                    "passage": "77",
                    "annotator": "ben",
                    "label": "negative",
                    "batch": None,
                    "blind": False,
                    "inclusion_probability": None,
                }
            ],
            "consensus": [
                {"question": "eq-P19-1", "passage": "77", "label": "negative", "state": "agreed", "people": 1}
            ],
        }
    )
    question: str
    labels: list[Judgement]
    consensus: Annotated[list[Consensus], Field(description="Empty unless you may see others' labels.")]


class ReceiptItem(BaseModel):
    """The store's answer to one event: stored, known (stored before), or refused with a message."""

    id: str
    state: str
    message: str


class ReceiptsAnswer(BaseModel):
    """A receipt for each event, in their order. What is stored or known is on disk."""

    model_config: ClassVar[ConfigDict] = example({"receipts": [{"id": "a1", "state": "stored", "message": ""}]})
    receipts: list[ReceiptItem]


class PassageToJudge(BaseModel):
    """A passage to judge; `label` is what you have given it before."""

    passage: str
    title: str
    text: str
    label: str | None


class KnownPositive(BaseModel):
    """A gold passage of the question."""

    title: str
    text: str


class QuestionToJudge(BaseModel):
    """A question of a batch that is yours to judge until `expires` (seconds since 1970)."""

    batch: str
    question: str
    text: str
    answers: list[str]
    expires: float
    gold: list[KnownPositive]
    passages: list[PassageToJudge]


class QueueAnswer(BaseModel):
    """The questions that you hold now."""

    model_config: ClassVar[ConfigDict] = example(
        {
            "items": [
                {
                    "batch": "first",
                    "question": "eq-P19-1",
                    "text": "Where was Arve Furset born?",
                    "answers": ["Askvoll"],
                    "expires": 1795000000.0,
                    "gold": [{"title": "Arve Furset", "text": "Arve Furset was born in Askvoll."}],
                    "passages": [
                        {"passage": "77", "title": "Arve Henriksen", "text": "Arve Henriksen is ...", "label": None}
                    ],
                }
            ]
        }
    )
    items: list[QuestionToJudge]


class MachineItem(BaseModel):
    """A machine annotator."""

    machine: str
    labels: int


class MachinesAnswer(BaseModel):
    """The machine annotators."""

    model_config: ClassVar[ConfigDict] = example({"items": [{"machine": "umbrela", "labels": 1200}]})
    items: list[MachineItem]


class MachineLabelItem(BaseModel):
    """The last label that a machine gave a passage."""

    question: str
    passage: str
    label: Label


class JudgementsAnswer(PageAnswer):
    """A page of a machine annotator's labels, by question and passage."""

    model_config: ClassVar[ConfigDict] = example(
        {"total": 1, "offset": 0, "items": [{"question": "eq-P19-1", "passage": "77", "label": "negative"}]}
    )
    items: list[MachineLabelItem]
