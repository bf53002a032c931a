"""The answers on what retrievers find: runs, hits, live questions and full-text search."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from blindspot.backend.service.v1.answers.parts import PageAnswer, example

_RUN = {"run": "bm25-dev", "retriever": "bm25", "k": 100, "questions": 505, "split": "dev", "rule": "dpr",
        "search_seconds": 4.1, "made": "2026-11-22T12:00:00Z"}  # fmt: skip


_HIT = {"rank": 1, "passage": "1189", "title": "Arve Furset", "score": 14.2}


class RunAnswer(BaseModel):
    """A finished run."""

    model_config: ClassVar[ConfigDict] = example(_RUN)
    run: str
    retriever: str | None
    k: int | None
    questions: int | None
    split: str | None
    rule: Annotated[str | None, Field(description="Answer matching rule of the run.")]
    search_seconds: float | None
    made: str | None


class RunsAnswer(BaseModel):
    """The finished runs, oldest first."""

    model_config: ClassVar[ConfigDict] = example({"items": [_RUN]})
    items: list[RunAnswer]


class NamedHit(BaseModel):
    """A passage that a retriever found."""

    rank: int
    passage: str
    title: str
    score: float


class RunHit(NamedHit):
    """A passage of a run."""

    answer: Annotated[bool, Field(description="Whether the passage contains an answer, by the run's rule.")]


class QuestionHits(BaseModel):
    """The hits of one question, best first."""

    question: str
    hits: list[RunHit]


class HitsAnswer(PageAnswer):
    """The hits of a page of a run's questions."""

    model_config: ClassVar[ConfigDict] = example(
        {"total": 505, "offset": 0, "hidden": 0, "items": [{"question": "eq-P19-1", "hits": [_HIT | {"answer": True}]}]}
    )
    hidden: Annotated[int, Field(description="Number of the run's questions that you still have to judge; left out.")]
    items: list[QuestionHits]


class UploadAnswer(BaseModel):
    """An uploaded run."""

    model_config: ClassVar[ConfigDict] = example({"run": "mine", "questions": 505, "unchanged": False, "notes": []})
    run: str
    questions: Annotated[int, Field(description="Number of questions with hits; 0 if nothing changed.")]
    unchanged: Annotated[bool, Field(description="Whether the study had this very run already.")]
    notes: list[str]


class LiveAnswer(BaseModel):
    """The hits of questions that were asked now, a list for each."""

    model_config: ClassVar[ConfigDict] = example({"retriever": "bm25", "hits": [[_HIT]]})
    retriever: str
    hits: list[list[NamedHit]]


class TextPiece(BaseModel):
    """A piece of an excerpt."""

    text: str
    found: Annotated[bool, Field(description="Whether it is a word that was searched for.")]


class FoundItem(BaseModel):
    """A passage, question or note that contains the words."""

    id: Annotated[str, Field(description="Of the passage or question; for a note, of its question.")]
    title: Annotated[str, Field(description="Of the passage; for a note, its annotator.")]
    passage: Annotated[str | None, Field(description="For a note on a passage, the passage.")]
    excerpt: list[TextPiece]


class FoundAnswer(BaseModel):
    """What contains the words."""

    model_config: ClassVar[ConfigDict] = example(
        {
            "place": "questions",
            "how": "1 questions contain all of the words, in the order of import.",
            "more": False,
            "items": [
                {
                    "id": "eq-P19-1",
                    "title": "",
                    "passage": None,
                    "excerpt": [{"text": "Where was Arve ", "found": False}, {"text": "Furset", "found": True}],
                }
            ],
        }
    )
    place: str
    how: Annotated[str, Field(description="How the search was done, with its limit.")]
    more: Annotated[bool, Field(description="Whether there are further results.")]
    items: list[FoundItem]
