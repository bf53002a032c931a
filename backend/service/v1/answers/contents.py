"""The answers on what the study holds: questions and passages."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from blindspot.backend.service.v1.answers.parts import PageAnswer, example

QUESTION_EXAMPLE = {
    "id": "eq-P19-1",
    "text": "Where was Arve Furset born?",
    "answers": ["Askvoll"],
    "relation": "P19",
    "subject": "Arve Furset",
    "template": None,
    "frequency": 12,
    "bucket": None,
    "dataset": "entityquestions",
    "split": "dev",
    "gold": ["1189"],
    "answer_rule": "string",
}


class QuestionSetCount(BaseModel):
    """The questions of one data set and split."""

    dataset: str
    split: str
    questions: int
    with_gold: int
    with_answers: int


class StudyAnswer(BaseModel):
    """The study that this service serves."""

    model_config: ClassVar[ConfigDict] = example(
        {
            "study": "demo",
            "passages": 3000,
            "corpus": "5f2c" + "0" * 60,
            "questions": [
                {"dataset": "entityquestions", "split": "dev", "questions": 505, "with_gold": 505, "with_answers": 505}
            ],
            "runs": ["bm25-dev"],
        }
    )
    study: str
    passages: int
    corpus: Annotated[str | None, Field(description="SHA-256 of the passage collection; null without passages.")]
    questions: list[QuestionSetCount]
    runs: list[str]


class QuestionAnswer(BaseModel):
    """A question with its answers and gold passages."""

    model_config: ClassVar[ConfigDict] = example(QUESTION_EXAMPLE)
    id: str
    text: str
    answers: list[str]
    relation: str | None
    subject: str | None
    template: str | None
    frequency: Annotated[int | None, Field(description="How often the subject is mentioned, by the imported count.")]
    bucket: Annotated[int | None, Field(description="Official frequency bucket, 0 most frequent.")]
    dataset: str
    split: str
    gold: Annotated[list[str], Field(description="Ids of the passages that are labelled as answering the question.")]
    answer_rule: str


class QuestionsAnswer(PageAnswer):
    """A page of questions, in the order of import."""

    model_config: ClassVar[ConfigDict] = example({"total": 505, "offset": 0, "items": [QUESTION_EXAMPLE]})
    items: list[QuestionAnswer]


class PassageAnswer(BaseModel):
    """A passage of the collection."""

    model_config: ClassVar[ConfigDict] = example(
        {"id": "1189", "title": "Arve Furset", "text": "Arve Furset (born 25 May 1964 in Askvoll) is ..."}
    )
    id: str
    title: str
    text: str
