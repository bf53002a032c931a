"""The response types of version 1. OpenAPI shows an example of each, which is generated from its fields."""

from __future__ import annotations

import types
from dataclasses import is_dataclass
from typing import Annotated, Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, Field

from blindspot.backend.evaluation.miss_facts import TrainingQuestionCounts
from blindspot.backend.evaluation.relevance import Kind
from blindspot.db.events import Label, Receipt
from blindspot.db.judgements import Consensus, Judgement

EXAMPLES: dict[str, Any] = {
    "study": "demo", "corpus": "5f2c" + "0" * 60, "dataset": "entityquestions", "split": "dev", "passages": 3000, "questions": 505,
    "id": "eq-P19-1", "question": "eq-P19-1", "text": "Where was Arve Furset born?", "answers": ["Askvoll"], "relation": "P19",
    "subject": "Arve Furset", "frequency": 12, "QuestionAnswer.gold": ["1189"], "answer_rule": "string", "Passage.id": "1189",
    "title": "Arve Furset", "Passage.text": "Arve Furset (born 25 May 1964 in Askvoll) is ...", "passage": "1189", "run": "bm25-dev",
    "runs": ["bm25-dev"], "retriever": "bm25", "k": 10, "rule": "dpr", "made": "2026-11-22T12:00:00Z", "score": 14.2, "place": "questions",
    "how": "1 question contains all of the words.", "TextPiece.text": "Furset", "ComparisonAnswer.a": "bm25-dev", "ComparisonAnswer.b": "minilm-dev",
    "SlicesAnswer.a": "bm25-dev", "SlicesAnswer.b": "minilm-dev", "measure": "success", "unit": "fact", "n": 505, "units": 480,
    "conclusion": "bm25-dev is better.", "method": "Sign-flip test.", "slice": "relation:P19", "expression": "relation:P19", "name": "births",
    "correction": "westfall-young", "summary": "No run retrieves a gold passage.", "shared_words": ["arve"], "missing_words": ["furset", "born"],
    "annotator": "ben", "batch": "first", "state": "agreed", "Receipt.id": "a1", "Receipt.state": "stored", "machine": "umbrela",
    "job": "20261122-120000-a1b2c3", "kind": "retrieve", "JobAnswer.title": "retrieve bm25 over dev", "JobAnswer.state": "running",
    "doing": "searching", "started": "2026-11-22T12:00:00Z", "log": "505 questions\n", "required": ["kind"], "optional": ["split", "k"],
}  # fmt: skip
"""Example values for fields, by the field's name, or by class and name. Other fields get an example value by their
type.
"""

KEYS = {"at": "5", "macro": "5", "groups": "P19", "neighbours": "minilm"}
"""Example keys of mappings, by the field's name."""


def example_of(kind: Any, owner: str = "", name: str = "") -> Any:
    """Return an example value of a type, as JSON values. For a model or a record, the example has all fields."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {field: example_of(each.annotation, kind.__name__, field) for field, each in kind.model_fields.items()}
    if isinstance(kind, type) and is_dataclass(kind):
        return {field: example_of(each, kind.__name__, field) for field, each in get_type_hints(kind).items()}
    inside = get_args(kind)
    if get_origin(kind) is dict:
        return {KEYS.get(name, "success"): example_of(inside[1], owner)}
    if get_origin(kind) is list and inside[0] is not str:
        return [example_of(inside[0], owner)]
    known = EXAMPLES.get(f"{owner}.{name}", EXAMPLES.get(name))
    if known is not None and (kind not in (str, int, float) or isinstance(known, kind)):
        return known
    if get_origin(kind) in (Union, types.UnionType):
        return None if str in inside else example_of(inside[0], owner, name)
    if get_origin(kind) is Literal:
        return inside[0]
    return [] if get_origin(kind) is list else {str: "", int: 1, float: 0.5, bool: False}.get(kind)


Item = TypeVar("Item")


class Items(BaseModel, Generic[Item]):
    """A list: runs, slices and jobs are in the order in which they were made, the last jobs newest first."""

    items: list[Item]


class Page(Items[Item], Generic[Item]):
    """One page of a list."""

    total: Annotated[int, Field(description="Number of items in the whole list.")]
    offset: Annotated[int, Field(description="Position of this page's first item, from 0.")]


class QuestionSetCount(BaseModel):
    """The questions of one data set and split."""

    dataset: str
    split: str
    questions: int
    with_gold: int
    with_answers: int


class StudyAnswer(BaseModel):
    """The study that this service serves."""

    study: str
    passages: int
    corpus: Annotated[str | None, Field(description="SHA-256 of the passage collection; null without passages.")]
    questions: list[QuestionSetCount]
    runs: list[str]


class QuestionAnswer(BaseModel):
    """A question with its answers and gold passages."""

    id: str
    text: str
    answers: list[str]
    relation: str | None
    subject: str | None
    template: str | None
    frequency: Annotated[
        int | None, Field(description="Number of mentions of the subject, from the imported frequencies.")
    ]
    bucket: Annotated[int | None, Field(description="Official frequency bucket, 0 most frequent.")]
    dataset: str
    split: str
    gold: Annotated[list[str], Field(description="Ids of the passages that are labelled as answering the question.")]
    answer_rule: str


class RunAnswer(BaseModel):
    """A finished run."""

    run: str
    retriever: str | None
    k: int | None
    questions: int | None
    split: str | None
    rule: Annotated[str | None, Field(description="Answer matching rule of the run.")]
    search_seconds: float | None
    made: str | None


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


class HitsAnswer(Page[QuestionHits]):
    """The hits of a page of a run's questions."""

    hidden: Annotated[
        int, Field(description="Number of the run's questions that you still have to judge; they are left out.")
    ]


class UploadAnswer(BaseModel):
    """An uploaded run."""

    run: str
    questions: Annotated[int, Field(description="Number of questions with hits; 0 if nothing changed.")]
    unchanged: Annotated[bool, Field(description="Whether the study already had exactly this run.")]
    notes: list[str]


class LiveAnswer(BaseModel):
    """The hits of questions that were asked now, a list for each."""

    retriever: str
    hits: list[list[NamedHit]]


class TextPiece(BaseModel):
    """A piece of an excerpt."""

    text: str
    found: Annotated[bool, Field(description="Whether this part of the text is a word that was searched for.")]


class FoundItem(BaseModel):
    """A passage, question or note that contains the words."""

    id: Annotated[
        str,
        Field(description="Title of the passage, or text of the question; for a note, of the question it belongs to."),
    ]
    title: Annotated[str, Field(description="The title of the passage; for a note, its annotator.")]
    passage: Annotated[str | None, Field(description="For a note on a passage, the passage.")]
    excerpt: list[TextPiece]


class FoundAnswer(BaseModel):
    """What contains the words."""

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
    units: Annotated[int, Field(description="Units of observation that tests and intervals use.")]
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
    explained: Annotated[float | None, Field(description="How far the slice moves the difference of all questions.")]
    p: float
    p_adjusted: float


class SlicesAnswer(BaseModel):
    """The slices that explain most of the difference of two runs."""

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


class NearPassage(BaseModel):
    """A passage near the gold among the stored vectors."""

    passage: str
    similarity: float
    gold: bool


class WhyAnswer(BaseModel):
    """Facts about how runs did on a question."""

    question: QuestionAnswer
    summary: str
    runs: list[RunOnQuestion]
    passages: list[SharedWords]
    frequency: int | None
    training_questions: TrainingQuestionCounts | None
    neighbours: Annotated[dict[str, list[NearPassage]], Field(description="By encoder.")]


class LabelsAnswer(BaseModel):
    """The labels of a question's passages that you may see."""

    question: str
    labels: list[Judgement]
    consensus: Annotated[
        list[Consensus], Field(description="Empty unless you have the right to see other people's labels.")
    ]


class ReceiptsAnswer(BaseModel):
    """A receipt for each event, in their order. What is stored or known is on disk."""

    receipts: list[Receipt]


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


class MachineItem(BaseModel):
    """A machine annotator."""

    machine: str
    labels: int


class MachineLabelItem(BaseModel):
    """The last label that a machine gave a passage."""

    question: str
    passage: str
    label: Label


class JobAnswer(BaseModel):
    """A job: waiting, running, done, failed or cancelled."""

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


class LogAnswer(BaseModel):
    """The end of what a job printed."""

    job: str
    log: str
