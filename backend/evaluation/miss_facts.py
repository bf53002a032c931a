"""Facts about one missed question, as the page Question shows them: the gold passage, the top-ranked passage ("winner"),
and the words they share with the question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from blindspot.analysis.buckets import subject_key
from blindspot.analysis.neighbours import nearest_rows
from blindspot.backend.core.arrays import open_array
from blindspot.backend.core.runs import Run
from blindspot.backend.core.study import Study
from blindspot.backend.data.importing.gold import find_ordinals
from blindspot.backend.evaluation.causes import NAMESAKE_SHARE
from blindspot.backend.evaluation.question_facts import content_words
from blindspot.backend.text.answers import (
    DEFAULT_RULE,
    answer_spans,
    has_answer,
    near_name_spans,
    nfd,
    query_spans,
    rule_for,
    spaced_tokens,
)
from blindspot.backend.text.spans import excerpt
from blindspot.db.records import Passage, Question

NEIGHBOURS = 5
MAX_VECTORS = 2_000_000  # limit of gold passages read for one question
UNSCORED = frozenset({"approximate", "judge"})  # keys of the manifests of runs that do not score every passage
NAME_NOISE = frozenset("the a an of and in de la le von van der st".split())


@dataclass(frozen=True, slots=True)
class GoldRank:
    """The rank of a question's gold passage in one run.

    Attributes:
        rank, score: of the best gold passage; None if it is not among the run's k hits.
        margin: the top score minus the gold's score, in the run's unit; None if the gold's score is unknown.
        winner: the passage at rank 1; None for an empty list.
        last: rank and score of the last hit if the list lacks the gold passage, whose score is then no higher; None
            otherwise, and for an approximate search and a reranker, which do not score every passage.
    """

    run: str
    retriever: str
    k: int
    gold: int | None
    rank: int | None
    score: float | None
    top: float | None
    margin: float | None
    winner: int | None
    last: tuple[int, float] | None = None


@dataclass(frozen=True, slots=True)
class ContentWords:
    """The question's content words that a passage contains in its title or text, and the words that it lacks."""

    shared: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A passage whose stored vector is near the vector of the gold passage. `similarity` is in the index's own measure
    (for l2 the negative distance).
    """

    ordinal: int
    similarity: float
    is_gold: bool


@dataclass(frozen=True, slots=True)
class MissExplanation:
    """The facts about a miss. `passages` holds passages by row.

    Attributes:
        words: by row, of gold and winners.
        holds_answer: whether a winner's text contains an answer, by the rule.
        namesake: winners whose title is another entity that shares a name with the subject, with the shared part of the
            subject's name (0 to 1).
        trained: the number of training questions with the same relation, with the same template, and about the same
            subject; None without training questions.
        neighbours: by encoder.
        near_names: by row, the first name in the excerpt of a winner that looks like the subject's; gold winners are left
            out.
    """

    question: Question
    standings: list[GoldRank]
    passages: dict[int, Passage]
    words: dict[int, ContentWords]
    holds_answer: dict[int, bool]
    namesake: dict[int, float]
    frequency: int | None
    frequency_source: str | None
    trained: TrainingQuestionCounts | None
    neighbours: dict[str, list[Neighbour]]
    near_names: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TrainingQuestionCounts:
    """The number of training questions with a question's relation, with its template, and about its subject."""

    relation: int
    template: int
    subject: int
    total: int


def explain_question(
    study: Study, question: Question, runs: Sequence[str | Run], rule: str = DEFAULT_RULE, neighbours: int = NEIGHBOURS
) -> MissExplanation:
    """Explain the results of runs on a question, using only data that can be computed without the encoder.

    Args:
        runs: names, or opened runs; runs without the question are skipped.
        neighbours: the number of passages nearest to the best gold, for each dense run whose vectors are in the study;
            0 for none.

    Raises: Missing for an unknown run.
    """
    gold = sorted(find_ordinals(study.corpus, question.gold).values())
    opened = {run if isinstance(run, str) else run.name: run for run in runs}
    standings = [found for run in opened.values() if (found := _run_result(study, run, question, gold)) is not None]
    near = _neighbours(study, standings, gold, neighbours) if gold and neighbours else {}
    named = dict.fromkeys([*gold, *(standing.winner for standing in standings if standing.winner is not None)])
    ordinals = dict.fromkeys([*named, *(each.ordinal for found in near.values() for each in found)])
    passages = dict(zip(ordinals, study.corpus.passages(ordinals), strict=True))
    winners = [standing.winner for standing in standings if standing.winner is not None]
    return MissExplanation(
        question,
        standings,
        passages,
        {ordinal: shared_words(question.text, passages[ordinal]) for ordinal in named},
        {ordinal: _contains_answer(question, passages[ordinal], rule) for ordinal in winners},
        {
            ordinal: share
            for ordinal in set(winners) - set(gold)
            if (share := near_namesake(question.subject, passages[ordinal].title))
        },
        question.frequency,
        study.questions.frequency_source,
        related_training_questions(study, question),
        near,
        {
            ordinal: name
            for ordinal in set(winners) - set(gold)
            if (name := near_name_in_excerpt(question, passages[ordinal], rule))
        },
    )


def near_name_in_excerpt(question: Question, passage: Passage, rule: str = DEFAULT_RULE) -> str:
    """Return the first name that looks like the subject's in the excerpt of a passage that the page Question shows, as it
    is written there; "" for none.
    """
    subject = question.subject or ""
    near = near_name_spans(passage.text, subject)
    if not near:
        return ""
    answers = answer_spans(passage.text, question.answers, rule_for(question, rule)) if question.answers else []
    names = answer_spans(passage.text, [subject]) or query_spans(passage.text, subject)
    start, end = excerpt(passage.text, answers, query_spans(passage.text, question.text), names)
    return next((passage.text[low:high] for low, high in near if start <= low and high <= end), "")


def namesake_sentence(explanation: MissExplanation, run_result: GoldRank) -> str:
    """Return a sentence if the run ranks a passage first whose title shares words with the subject's name; else ""."""
    if run_result.winner is None or run_result.winner not in explanation.namesake or run_result.rank == 1:
        return ""
    title = explanation.passages[run_result.winner].title
    return (
        f"{run_result.run} ranks a title that shares part of the subject's name first: {title} instead of "
        f"{explanation.question.subject}."
    )


def near_name_sentence(explanation: MissExplanation, run_result: GoldRank) -> str:
    """Return a sentence if the passage that the run ranks first mentions a name that looks like the subject's, and has no
    answer; else "".
    """
    winner = run_result.winner
    if (
        winner is None
        or run_result.rank == 1
        or winner not in explanation.near_names
        or explanation.holds_answer[winner]
    ):
        return ""
    name, title = explanation.near_names[winner], explanation.passages[winner].title
    where = f"{name} (in {title})" if title and title != name else name
    return (
        f"{run_result.run} ranks a passage with a similar name first: {where} instead of "
        f"{explanation.question.subject}."
    )


def false_negative_sentence(explanation: MissExplanation, run_result: GoldRank) -> str:
    """Return a sentence if the run ranks an unlabelled passage that contains an answer above the gold
    passage; else "".
    """
    if run_result.winner is None or (run_result.rank or 0) <= 1 or not explanation.holds_answer.get(run_result.winner):
        return ""
    return (
        f"{run_result.run} ranks a passage first that contains an answer but is not gold: it may be a false negative."
    )


def unchecked_gold_sentence(explanation: MissExplanation) -> str:
    """Return a sentence that the gold may state another fact, if no gold passage has the subject's name as its title; else
    "".
    """
    question = explanation.question
    gold = [each for each in explanation.passages.values() if each.id in question.gold]
    if not question.subject or not gold:
        return ""
    if max(name_share(question.subject, each.title) for each in gold) >= NAMESAKE_SHARE:
        return ""
    which = "The gold passage is" if len(gold) == 1 else f"None of the {len(gold)} gold passages is"
    not_one = "not " if len(gold) == 1 else ""
    return (
        f"{which} {not_one}titled {question.subject}, so the gold may hold the answer's words by chance: read it first."
    )


def reason(explanation: MissExplanation) -> tuple[str, str]:
    """Return the run that missed for the most informative reason and the sentence that says the reason; "" and "" if there
    is none.
    """
    for tell in (namesake_sentence, near_name_sentence, false_negative_sentence):
        for standing in explanation.standings:
            if sentence := tell(explanation, standing):
                return standing.run, sentence
    return "", ""


def summary_sentence(explanation: MissExplanation) -> str:
    """Return the most informative fact as one sentence; "" if there is none."""
    _, sentence = reason(explanation)
    if sentence:
        return sentence
    if not any(standing.gold is not None for standing in explanation.standings):
        return (
            "Neither run retrieves a gold passage."
            if explanation.question.gold
            else "This question has no gold passage."
        )
    if all(standing.rank == 1 for standing in explanation.standings):
        return "Every run ranks a gold passage first."
    return ""


def _contains_answer(question: Question, passage: Passage, rule: str) -> bool:
    return has_answer(passage.text, question.answers, rule_for(question, rule), passage.title)


def _run_result(study: Study, run: str | Run, question: Question, gold: Sequence[int]) -> GoldRank | None:
    run = study.run(run) if isinstance(run, str) else run
    row = run.row(question.id)
    if row is None:
        return None
    ordinals, scores = np.asarray(run.hits.ordinals[row]), np.asarray(run.hits.scores[row], dtype=np.float64)
    columns = np.flatnonzero(np.isin(ordinals, gold)) if len(gold) else np.zeros(0, np.int64)
    column = int(columns[0]) if len(columns) else None
    searched = len(ordinals) > 0 and ordinals[0] >= 0
    top = float(scores[0]) if searched else None
    score = None if column is None else float(scores[column])
    filled = int((ordinals >= 0).sum())
    is_bound = bool(filled and len(gold)) and column is None and not UNSCORED & run.manifest.keys()
    return GoldRank(
        run.name,
        str(run.manifest.get("retriever") or "imported"),
        run.hits.k,
        None if column is None else int(ordinals[column]),
        None if column is None else column + 1,
        score,
        top,
        None if score is None or top is None else top - score,
        int(ordinals[0]) if searched else None,
        (filled, float(scores[filled - 1])) if is_bound else None,
    )


def shared_words(question: str, passage: Passage) -> ContentWords:
    """Return which content words of a question are in a passage's title or text."""
    text = f"{spaced_tokens(nfd(passage.title))}{spaced_tokens(nfd(passage.text))}"
    words = dict.fromkeys(word for word in spaced_tokens(nfd(question)).split() if word in content_words(question))
    return ContentWords(tuple(w for w in words if f" {w} " in text), tuple(w for w in words if f" {w} " not in text))


def name_words(name: str) -> list[str]:
    """Return the words of a name, without bracketed text, particles and punctuation."""
    return [
        w
        for w in spaced_tokens(nfd(name.partition(" (")[0])).split()
        if w not in NAME_NOISE and any(c.isalnum() for c in w)
    ]


def near_namesake(subject: str | None, title: str) -> float:
    """Return the share of the words of the subject's name that another entity's title contains; 0 for the subject's own
    title or without common words.

    For example, "Arve Furset" and "Arve Henriksen" share 1 of 2 words: 0.5 (EntityQuestions, Table 7).
    """
    if not subject or name_words(subject) == name_words(title):
        return 0.0
    return name_share(subject, title)


def name_share(subject: str, title: str) -> float:
    """Return the share of the words of a subject's name that a title contains, from 0 to 1; 0 for a name
    without words.
    """
    ours, theirs = name_words(subject), name_words(title)
    return sum(word in theirs for word in ours) / len(ours) if ours else 0.0


def pattern(question: Question) -> str | None:
    """Return the question with [X] for its subject, from its template or its text; None if the text lacks the
    subject.
    """
    if question.template or not question.subject:
        return question.template
    before, parts_of_text, after = question.text.partition(question.subject)
    return f"{before}[X]{after}" if parts_of_text else None


def related_training_questions(study: Study, question: Question) -> TrainingQuestionCounts | None:
    """Count the training questions with this question's relation, template and subject; None without training
    questions.
    """
    known = study.questions.all(split="train")
    if not known:
        return None
    key, wording = subject_key(question.subject) if question.subject else None, pattern(question)
    return TrainingQuestionCounts(
        sum(q.relation == question.relation for q in known) if question.relation else 0,
        sum(pattern(q) == wording for q in known) if wording else 0,
        sum(q.subject is not None and subject_key(q.subject) == key for q in known) if key else 0,
        len(known),
    )


def _neighbours(
    study: Study, standings: Sequence[GoldRank], gold: Sequence[int], count: int
) -> dict[str, list[Neighbour]]:
    """Return by encoder the passages nearest to the best-ranked gold passage, for indexes whose vectors are stored in
    the study.
    """
    indexes = study.parts("indexes")
    ranked = [
        (standing.rank, standing.gold)
        for standing in standings
        if standing.rank is not None and standing.gold is not None
    ]
    centre = min(ranked, key=lambda pair: pair[0])[1] if ranked else gold[0]
    result = {}
    for name in dict.fromkeys(standing.retriever for standing in standings):
        path = study.folder / "indexes" / name / "embeddings.npy"
        if name not in indexes or not path.is_file():
            continue
        vectors = open_array(path, "index the passages again")
        if len(vectors) > MAX_VECTORS:
            continue
        near = nearest_rows(
            vectors[centre : centre + 1],
            vectors,
            min(count, len(vectors) - 1),
            indexes[name].get("similarity", "dot"),
            excluded_rows=np.array([centre]),
        )
        pairs = zip(near.rows[0].tolist(), near.similarity[0].tolist(), strict=True)
        result[name] = [Neighbour(row, similarity, row in gold) for row, similarity in pairs]
    return result
