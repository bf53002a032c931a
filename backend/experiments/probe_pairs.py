"""Probes test biases of an encoder: each probe makes pairs of passages that differ in one respect, and measures which
passage the encoder scores higher.

Each probe is a pure function of a question, its gold passage and another passage's subject. It returns a `ProbePair`,
or None if no pair can be made from the passage. The passages come from the study's own collection.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from blindspot.backend.data.importing.gold import find_ordinals
from blindspot.backend.evaluation.miss_facts import name_words
from blindspot.backend.experiments.parts import Part, QuestionSelection
from blindspot.backend.experiments.workbench import Workbench
from blindspot.backend.interventions.edits import replace_name
from blindspot.backend.interventions.sentences import answer_sentence, contains_words, sentences
from blindspot.backend.retrieval.encoder import load_encoder
from blindspot.backend.text.answers import DEFAULT_RULE, rule_for
from blindspot.db.records import Passage, Question

MIN_SENTENCES = 3  # of a passage: fewer leave nothing to move, cut or leave out
REPEATS = 3  # times that the subject's name is repeated
NUMBER = re.compile(r"\b[1-9][0-9]{2,3}\b")


@dataclass(frozen=True, slots=True)
class ProbeItem:
    """A question with a gold passage that states the answer. other: another subject of the same relation."""

    question: Question
    passage: Passage
    parts: tuple[str, ...]
    answer: int
    other: str | None

    def text(self, sentences: Sequence[str]) -> Passage:
        return replace(self.passage, text=" ".join(sentences))

    @property
    def text_without_answer(self) -> list[str]:
        """Return the sentences of the passage without the answer's sentence."""
        return [*self.parts[: self.answer], *self.parts[self.answer + 1 :]]


@dataclass(frozen=True, slots=True)
class ProbePair:
    """Two passages for a question: the passage that a biased encoder would favour, and the other one."""

    question: str
    favoured: Passage
    other_passage: Passage


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe. is_wrong: whether the favoured passage is wrong; if not, both state the answer, and an encoder without the
    bias favours neither (50%). favours: the favoured passage in words, against the other.
    """

    name: str
    favours: str
    is_wrong: bool
    pair: Callable[[ProbeItem], ProbePair | None]


def position_pair(item: ProbeItem) -> ProbePair:
    sentence = item.parts[item.answer]
    return ProbePair(
        item.question.text,
        item.text([sentence, *item.text_without_answer]),
        item.text([*item.text_without_answer, sentence]),
    )


def short_pair(item: ProbeItem) -> ProbePair:
    return ProbePair(item.question.text, item.text([item.parts[item.answer]]), item.passage)


def literal_match_pair(item: ProbeItem) -> ProbePair:
    echoed = [*item.parts[: item.answer], item.question.text, *item.parts[item.answer + 1 :]]
    return ProbePair(item.question.text, item.text(echoed), item.passage)


def repetition_pair(item: ProbeItem) -> ProbePair | None:
    if not item.question.subject:
        return None
    names = [f"{item.question.subject}."] * REPEATS
    return ProbePair(item.question.text, item.text([*names, *item.text_without_answer]), item.passage)


def namesake_pair(item: ProbeItem) -> ProbePair | None:
    """Pair the passage with a copy about an entity with the same first name (or first word) and another last name."""
    subject, other = item.question.subject or "", item.other or ""
    own, theirs = subject.split(), other.split()
    if len(own) < 2 or not theirs or set(name_words(subject)) & set(name_words(theirs[-1])):
        return None
    if not contains_words(f"{item.passage.title} {item.passage.text}", subject):
        return None
    name = " ".join([*own[:-1], theirs[-1]])
    about = Passage(
        item.passage.id, replace_name(item.passage.title, subject, name), replace_name(item.passage.text, subject, name)
    )
    return ProbePair(item.question.text, about, item.passage)


def negation_pair(item: ProbeItem) -> ProbePair:
    sentence = item.parts[item.answer]
    lowered = (
        sentence if sentence.split()[0] in (item.question.subject or "").split() else sentence[0].lower() + sentence[1:]
    )
    parts = [*item.parts[: item.answer], f"It is not true that {lowered}", *item.parts[item.answer + 1 :]]
    return ProbePair(item.question.text, item.text(parts), item.passage)


def number_pair(item: ProbeItem) -> ProbePair | None:
    """Pair the passage with a copy that has another number, for a question that contains the number."""
    found = NUMBER.search(item.passage.text)
    if found is None or not item.passage.title:
        return None
    number = found.group()
    changed = number[:-2] + str((int(number[-2:]) + 37) % 100).zfill(2)
    other = replace(item.passage, text=re.sub(rf"\b{number}\b", changed, item.passage.text))
    return ProbePair(f"What does {item.passage.title} have to do with {number}?", other, item.passage)


PROBES: dict[str, Probe] = {
    probe.name: probe
    for probe in (
        Probe("early position", "the answer's sentence first, against last", False, position_pair),
        Probe("brevity", "the answer's sentence alone, against the whole passage", False, short_pair),
        Probe(
            "literal match",
            "the question in the place of the answer's sentence, against the passage",
            True,
            literal_match_pair,
        ),
        Probe("repetition", "the subject's name three times, no answer, against the passage", True, repetition_pair),
        Probe("namesakes", "the passage about a namesake, against the passage", True, namesake_pair),
        Probe("negation", "the answer's sentence denied, against the passage", True, negation_pair),
        Probe("numbers", "another number than the question's, against the passage", True, number_pair),
    )
}


def probe_items(bench: Workbench, questions: Sequence[Question]) -> list[ProbeItem]:
    """Return the questions with a gold passage that states the answer in one of at least MIN_SENTENCES sentences."""
    ids = {id for question in questions for id in question.gold}
    rows = find_ordinals(bench.corpus, ids)
    ordered = sorted(set(rows.values()))
    passages = dict(zip(ordered, bench.corpus.passages(ordered), strict=True))
    items = []
    for number, question in enumerate(questions):
        others = [
            each for each in (*questions[number + 1 :], *questions[:number]) if each.relation == question.relation
        ]
        other = next((each.subject for each in others if each.subject and each.subject != question.subject), None)
        for row in sorted({rows[id] for id in question.gold if id in rows}):
            parts = sentences(passages[row].text)
            at = answer_sentence(parts, question.text, question.answers, rule_for(question, DEFAULT_RULE))
            if at is not None and len(parts) >= MIN_SENTENCES:
                items.append(ProbeItem(question, passages[row], tuple(parts), at, other))
                break
    return items


@dataclass(frozen=True)
class ProbeMeasure:
    """A measure: for each pair of a probe, 1 if the encoder scores the favoured passage higher, else 0. weights: a hash
    of the encoder's weights.
    """

    probe: str
    encoder: str
    weights: str
    selection: QuestionSelection

    def needs(self) -> Sequence[Part]:
        return ()

    def values(self, bench: Workbench) -> np.ndarray:
        found = (PROBES[self.probe].pair(item) for item in probe_items(bench, self.selection.questions_of(bench)))
        pairs = [pair for pair in found if pair is not None]
        if not pairs:
            return np.zeros(0)
        encoder = load_encoder(bench.settings.encoders[self.encoder], bench.device)
        questions = encoder.encode_questions([pair.question for pair in pairs])
        favoured = encoder.encode_passages([pair.favoured for pair in pairs])
        others = encoder.encode_passages([pair.other_passage for pair in pairs])
        if encoder.similarity == "l2":
            gains = ((questions - others) ** 2).sum(1) - ((questions - favoured) ** 2).sum(1)
        else:
            gains = (questions * (favoured - others)).sum(1)
        return (gains > 0).astype(np.float64)
