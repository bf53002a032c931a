"""The answers on runs: comparisons, slices, and why a question was missed."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from blindspot.backend.evaluation.relevance import Kind
from blindspot.backend.service.v1.answers.contents import QUESTION_EXAMPLE, QuestionAnswer
from blindspot.backend.service.v1.answers.parts import example

_FIGURES = {"k": 5, "n": 505, "units": 480, "a": {"success": 0.61, "low": 0.57, "high": 0.65},
            "b": {"success": 0.55, "low": 0.51, "high": 0.59}, "oracle": {"success": 0.7, "low": 0.66, "high": 0.74},
            "difference": 0.06, "low": 0.02, "high": 0.1, "p": 0.004, "p_holm": 0.012, "p_mcnemar": 0.005,
            "both": 232, "only_a": 76, "only_b": 46, "neither": 151}  # fmt: skip


_SLICE = {"slice": "relation:P19", "k": 5, "n": 80, "units": 76, "a": 0.4, "b": 0.7, "difference": -0.3, "low": -0.42,
          "high": -0.18, "outside": 0.12, "explained": -0.05, "p": 0.0001, "p_adjusted": 0.001}  # fmt: skip


class PairedAnswer(BaseModel):
    """Two runs at one cut-off. `a`, `b` and `oracle` hold the measure by its name, with its interval.

    For Success@k the questions are counted in both, only_a, only_b and neither; for other measures in a_better,
    b_better and equal.
    """

    k: int
    n: int
    units: Annotated[int, Field(description="Units of observation that tests and intervals count by.")]
    a: dict[str, float | None]
    b: dict[str, float | None]
    oracle: dict[str, float | None]
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    p_holm: float | None
    p_mcnemar: float | None
    both: int | None = None
    only_a: int | None = None
    only_b: int | None = None
    neither: int | None = None
    a_better: int | None = None
    b_better: int | None = None
    equal: int | None = None


class PairedGroup(PairedAnswer):
    """A group of questions."""

    name: str


class ComparisonAnswer(BaseModel):
    """Two runs compared, as `blindspot compare --json` prints them."""

    model_config: ClassVar[ConfigDict] = example(
        {
            "a": "bm25-dev",
            "b": "minilm-dev",
            "relevance": "answers",
            "measure": "success",
            "slice": "",
            "k": 5,
            "seed": 0,
            "unit": "fact",
            "conclusion": "bm25-dev is better.",
            "reservation": "",
            "method": "Sign-flip test.",
            "notes": [],
            "at": {"5": _FIGURES},
            "macro": {},
            "by": "relation",
            "groups": {"P19": _FIGURES | {"name": "place of birth (P19)"}},
        }
    )
    a: str
    b: str
    relevance: Kind
    measure: str
    slice: str
    k: int
    seed: int
    unit: str
    conclusion: str
    reservation: str
    method: str
    notes: list[str]
    at: Annotated[dict[str, PairedAnswer], Field(description="By cut-off, over all questions.")]
    macro: Annotated[dict[str, PairedAnswer], Field(description="By cut-off, averaged over relations.")]
    by: str | None
    groups: dict[str, PairedGroup]


class SliceItem(BaseModel):
    """A slice in which the difference of two runs departs from the rest."""

    slice: str
    k: int
    n: int
    units: int
    a: float | None
    b: float | None
    difference: float | None
    low: float | None
    high: float | None
    outside: Annotated[float | None, Field(description="The difference in the other questions.")]
    explained: Annotated[float | None, Field(description="How far the slice moves the whole difference.")]
    p: float
    p_adjusted: float


class SlicesAnswer(BaseModel):
    """The slices that explain most of the difference of two runs."""

    model_config: ClassVar[ConfigDict] = example(
        {
            "a": "bm25-dev",
            "b": "minilm-dev",
            "k": 5,
            "n": 505,
            "units": 480,
            "unit": "fact",
            "difference": 0.06,
            "tried": 120,
            "correction": "westfall-young",
            "method": "120 slices were tested.",
            "slices": [_SLICE],
        }
    )
    a: str
    b: str
    k: int
    n: int
    units: int
    unit: str
    difference: float | None
    tried: int
    correction: str
    method: str
    slices: list[SliceItem]


class SavedSliceAnswer(BaseModel):
    """A slice that somebody saved."""

    model_config: ClassVar[ConfigDict] = example(
        {"name": "births", "expression": "relation:P19", "made": "2026-11-22T12:00:00Z"}
    )
    name: str
    expression: str
    made: str


class SavedSlicesAnswer(BaseModel):
    """The saved slices, oldest first."""

    model_config: ClassVar[ConfigDict] = example(
        {"items": [{"name": "births", "expression": "relation:P19", "made": "2026-11-22T12:00:00Z"}]}
    )
    items: list[SavedSliceAnswer]


class RunOnQuestion(BaseModel):
    """How one run did on a question."""

    run: str
    gold: Annotated[str | None, Field(description="The best-ranked gold passage; null if none is among the hits.")]
    gold_rank: int | None
    gold_score: float | None
    margin: Annotated[float | None, Field(description="The top score minus the gold's score.")]
    winner: Annotated[str | None, Field(description="The passage at rank 1.")]
    winner_holds_answer: bool | None
    winner_is_namesake: bool | None


class SharedWords(BaseModel):
    """The question's words that a passage contains, and those that it lacks."""

    passage: str
    title: str
    shared_words: list[str]
    missing_words: list[str]


class LikeQuestions(BaseModel):
    """How many training questions are like this one."""

    relation: int
    template: int
    subject: int
    total: int


class NearPassage(BaseModel):
    """A passage near the gold among the stored vectors."""

    passage: str
    similarity: float
    gold: bool


class WhyAnswer(BaseModel):
    """Facts about how runs did on a question."""

    model_config: ClassVar[ConfigDict] = example(
        {
            "question": QUESTION_EXAMPLE,
            "summary": "Neither run retrieves a gold passage.",
            "runs": [
                {
                    "run": "bm25-dev",
                    "gold": None,
                    "gold_rank": None,
                    "gold_score": None,
                    "margin": None,
                    "winner": "77",
                    "winner_holds_answer": False,
                    "winner_is_namesake": True,
                }
            ],
            "passages": [
                {
                    "passage": "77",
                    "title": "Arve Henriksen",
                    "shared_words": ["arve"],
                    "missing_words": ["furset", "born"],
                }
            ],
            "frequency": 12,
            "training_questions": {"relation": 90, "template": 90, "subject": 0, "total": 800},
            "neighbours": {"minilm": [{"passage": "91", "similarity": 0.71, "gold": False}]},
        }
    )
    question: QuestionAnswer
    summary: str
    runs: list[RunOnQuestion]
    passages: list[SharedWords]
    frequency: int | None
    training_questions: LikeQuestions | None
    neighbours: Annotated[dict[str, list[NearPassage]], Field(description="By encoder.")]
