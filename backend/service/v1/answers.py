"""The answers of version 1, each with an example. OpenAPI and the documentation page show them."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from backend.evaluation.relevance import Kind
from db.events import Label

_QUESTION = {
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
_RUN = {"run": "bm25-dev", "retriever": "bm25", "k": 100, "questions": 505, "split": "dev", "rule": "dpr",
        "search_seconds": 4.1, "made": "2026-11-22T12:00:00Z"}  # fmt: skip
_HIT = {"rank": 1, "passage": "1189", "title": "Arve Furset", "score": 14.2}
_JOB = {"job": "20261122-120000-a1b2c3", "kind": "retrieve", "title": "retrieve bm25 over dev", "state": "running",
        "done": 120, "total": 505, "doing": "searching", "started": "2026-11-22T12:00:00Z", "ended": None,
        "error": None, "result": None}  # fmt: skip
_FIGURES = {"k": 5, "n": 505, "a": {"success": 0.61, "low": 0.57, "high": 0.65},
            "b": {"success": 0.55, "low": 0.51, "high": 0.59}, "oracle": {"success": 0.7, "low": 0.66, "high": 0.74},
            "difference": 0.06, "low": 0.02, "high": 0.1, "p": 0.004, "p_holm": 0.012, "p_mcnemar": 0.005,
            "both": 232, "only_a": 76, "only_b": 46, "neither": 151}  # fmt: skip
_SLICE = {"slice": "relation:P19", "k": 5, "n": 80, "a": 0.4, "b": 0.7, "difference": -0.3, "low": -0.42,
          "high": -0.18, "outside": 0.12, "explained": -0.05, "p": 0.0001, "p_adjusted": 0.001}  # fmt: skip


def example(value: Any) -> ConfigDict:
    """Return the configuration of a model with this example."""
    return ConfigDict(json_schema_extra={"example": value})


class PageAnswer(BaseModel):
    """One page of a list."""

    total: Annotated[int, Field(description="Number of items in the whole list.")]
    offset: Annotated[int, Field(description="Place of this page's first item, from 0.")]


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

    model_config: ClassVar[ConfigDict] = example(_QUESTION)
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

    model_config: ClassVar[ConfigDict] = example({"total": 505, "offset": 0, "items": [_QUESTION]})
    items: list[QuestionAnswer]


class PassageAnswer(BaseModel):
    """A passage of the collection."""

    model_config: ClassVar[ConfigDict] = example(
        {"id": "1189", "title": "Arve Furset", "text": "Arve Furset (born 25 May 1964 in Askvoll) is ..."}
    )
    id: str
    title: str
    text: str


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


class PairedAnswer(BaseModel):
    """Two runs at one cut-off. `a`, `b` and `oracle` hold the measure by its name, with its interval.

    For Success@k the questions are counted in both, only_a, only_b and neither; for other measures in a_better,
    b_better and equal.
    """

    k: int
    n: int
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
            "question": _QUESTION,
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


class JudgementItem(BaseModel):
    """The last label that somebody gave a passage for a question."""

    number: int
    question: str
    passage: str
    annotator: str
    label: Label
    batch: str | None
    blind: bool
    inclusion_probability: float | None


class ConsensusItem(BaseModel):
    """The label of a passage over all its annotators; "open" if they disagree."""

    question: str
    passage: str
    label: Label | None
    state: str
    people: int


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
    labels: list[JudgementItem]
    consensus: Annotated[list[ConsensusItem], Field(description="Empty unless you may see others' labels.")]


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


class JobAnswer(BaseModel):
    """A job: waiting, running, done, failed or cancelled."""

    model_config: ClassVar[ConfigDict] = example(_JOB)
    job: str
    kind: str
    title: str
    state: str
    done: int
    total: int | None
    doing: str
    started: str | None
    ended: str | None
    error: str | None
    result: Any


class JobsAnswer(BaseModel):
    """The last jobs, newest first."""

    model_config: ClassVar[ConfigDict] = example({"items": [_JOB]})
    items: list[JobAnswer]


class JobKindItem(BaseModel):
    """A kind of job that can be started. `more`: it takes further named arguments, such as a retriever's options."""

    kind: str
    required: list[str]
    optional: list[str]
    more: bool


class JobKindsAnswer(BaseModel):
    """The kinds of jobs that can be started here."""

    model_config: ClassVar[ConfigDict] = example(
        {"items": [{"kind": "index bm25", "required": [], "optional": ["threads"], "more": False}]}
    )
    items: list[JobKindItem]


class LogAnswer(BaseModel):
    """The end of what a job printed."""

    model_config: ClassVar[ConfigDict] = example({"job": _JOB["job"], "log": "505 questions\n"})
    job: str
    log: str
