"""Build question sets like EntityQuestions from any triples (Sciavolino et al. 2021, section 3).

Each relation has a question template, and all objects of a subject are answers. The paper uses relations with more than
2,000 triples and more than a few distinct answers, and only facts that a sentence of Wikipedia states. For each
relation it draws up to 1,000 facts for dev, up to 1,000 for test and up to 8,000 for train (10%, 10% and 80%). Here a
passage covers a fact if it mentions the subject in its title or text and contains an object in its text. Such passages
become gold passages; those of the subject's own article come first.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blindspot.analysis.buckets import subject_key
from blindspot.analysis.relations import relation_order
from blindspot.backend.core.declared import named_settings
from blindspot.backend.core.jobs import job
from blindspot.backend.core.sampling import nested_sample
from blindspot.backend.core.settings import check_name
from blindspot.backend.core.study import Study
from blindspot.backend.data.formats.base import as_split, question_fault
from blindspot.backend.data.formats.entityquestions import TEMPLATES
from blindspot.backend.data.formats.streams import ByteSource
from blindspot.backend.data.importing.importer import ImportResult
from blindspot.backend.data.importing.mentions import MentionCounter
from blindspot.backend.data.importing.rejected_rows import RejectedRows
from blindspot.backend.data.importing.settings import QuestionSampling
from blindspot.backend.data.importing.tools import ThrottledProgress, readable_write_errors
from blindspot.backend.data.importing.triple_files import read_templates, read_triples
from blindspot.backend.progress import Progress
from blindspot.backend.text.answers import DEFAULT_RULE, RULES
from blindspot.backend.text.number_words import quantity
from blindspot.db.corpus import Row
from blindspot.db.errors import BadInput
from blindspot.db.imports import ImportRecord
from blindspot.db.records import Question

TRAINING = 8  # times as many training questions of a relation as in dev and in test
MAX_GOLD = 10
SHARE = 0.1  # of a relation's facts for dev, and as many for test
"""The paper gives the limits of 2,000 triples and 1,000 questions, but no minimum number of answers."""


@dataclass(slots=True)
class Fact:
    """The answers to a question about a subject and a relation, and the passages that state them. own_answers,
    other_answers: passages from the subject's own article and from other articles.
    """

    subject: str
    relation: str
    answers: dict[str, None] = field(default_factory=dict)
    frequency: int | None = None
    own_answers: list[str] = field(default_factory=list)
    other_answers: list[str] = field(default_factory=list)

    @property
    def is_covered(self) -> bool:
        return bool(self.own_answers or self.other_answers)

    @property
    def gold(self) -> tuple[str, ...]:
        return tuple([*self.own_answers, *self.other_answers][:MAX_GOLD])


@job("import triples")
@named_settings(QuestionSampling, "sampling")
def import_triples(
    study: Study,
    path: str | Path,
    dataset: str | None = None,
    templates: str | Path | None = None,
    *,
    sampling: QuestionSampling,
    skip_bad: bool = False,
    progress: Progress | None = None,
) -> ImportResult:
    """Make questions from triples and add them to a study that has passages.

    Args:
        dataset: name of the question set; default the file's name.
        templates: a file of relation to question; None for EntityQuestions' own 24.

    Raises:
        BadInput: the first error, with file and line; or no relation has enough facts; or a wrong setting.
        Refused: questions of that set are there already. Missing: there are no passages.
    """
    began, path = time.monotonic(), Path(path)
    dataset = check_name(dataset or path.name.split(".")[0], "question set")
    wordings = TEMPLATES if templates is None else read_templates(templates)
    report, corpus = ThrottledProgress(progress), study.corpus
    with readable_write_errors(study.folder), RejectedRows(study.folder, path, skip_bad) as rejected:
        source = ByteSource(path)
        facts, unknown = _facts(source, wordings, rejected, report)
        if not facts:
            raise rejected.first or BadInput(
                f"no triple's relation has a question; relations: {', '.join(sorted(unknown)[:5]) or 'none'}; "
                "give --templates",
                path,
            )
        _find_covering_passages(facts.values(), corpus.blocks(), len(corpus), report)
        questions, notes = questions_from_facts(list(facts.values()), wordings, dataset, sampling)
        for question in questions:
            if message := question_fault(question):
                raise BadInput(f"the question {question.text[:80]!r}: {message}", path)
        if unknown:
            notes.append(f"without a question in the templates: {_largest_counts(unknown)}")
        if not questions:
            raise BadInput(f"no relation is left: {'; '.join(notes)}", path)
        asked = {name: getattr(sampling, name) for name in ("split", "least", "most", "seed")}
        kept = json.dumps({"dataset": dataset, **asked})
        size, count = path.stat().st_size, len(questions)
        record = ImportRecord("questions", path.name, source.sha256 or "", size, count, rejected.count, kept)
        report.report_now(len(questions), len(questions), "saving questions")
        study.questions.add(questions, record)
    return ImportResult(len(questions), rejected.count, rejected.file, time.monotonic() - began, notes=tuple(notes))


def _facts(
    source: ByteSource, wordings: Mapping[str, str], rejected: RejectedRows, report: ThrottledProgress
) -> tuple[dict[tuple[str, str], Fact], Counter[str]]:
    """Return the facts by relation and subject, and by relation the number of triples without a template."""
    facts: dict[tuple[str, str], Fact] = {}
    unknown: Counter[str] = Counter()
    for number, row in enumerate(read_triples(source)):
        if isinstance(row, BadInput):
            rejected.add(row)
            continue
        report(number, None, "reading triples")
        if row.relation not in wordings:
            unknown[row.relation] += 1
            continue
        fact = facts.setdefault((row.relation, row.subject), Fact(row.subject, row.relation))
        fact.answers.update(dict.fromkeys(row.objects))
        if row.frequency is not None:
            fact.frequency = max(row.frequency, fact.frequency or 0)
    return facts, unknown


class _Aligner(MentionCounter):
    """Finds the passages that cover a fact, and counts the passages that mention its subject."""

    def __init__(self, facts: Iterable[Fact]):
        self._facts: dict[str, list[tuple[Fact, tuple[Any, ...]]]] = {}
        facts, rule = list(facts), RULES[DEFAULT_RULE]
        super().__init__({fact.subject for fact in facts})
        for fact in facts:
            self._facts.setdefault(self._keys[fact.subject], []).append((fact, rule.needles(tuple(fact.answers))))
        self._rule = rule

    def add(self, rows: Sequence[Row]) -> None:
        for (id, title, text), subjects in zip(rows, self.mentioned_entities(rows), strict=True):
            if subjects:
                self._counts.update(subjects)
                passage = self._rule.passage(text)
                for fact, needles in (fact for key in subjects for fact in self._facts.get(key, ())):
                    if self._rule.contains_answer(passage, needles):
                        places = (
                            fact.own_answers if subject_key(title) == subject_key(fact.subject) else fact.other_answers
                        )
                        if len(places) < MAX_GOLD:
                            places.append(id)


def _find_covering_passages(
    facts: Iterable[Fact], blocks: Iterator[list[Row]], total: int, report: ThrottledProgress
) -> None:
    """Find the passages that cover each fact. Facts without a frequency in the file get the number of passages that
    mention the subject.
    """
    facts = list(facts)
    aligner = _Aligner(facts)
    aligner.add_blocks(blocks, total, report, "looking for passages that report the facts")
    counts = aligner.counts()
    for fact in facts:
        fact.frequency = counts[fact.subject] if fact.frequency is None else fact.frequency


def questions_from_facts(
    facts: Sequence[Fact],
    wordings: Mapping[str, str],
    dataset: str,
    sampling: QuestionSampling | None = None,
) -> tuple[list[Question], list[str]]:
    """Return the questions, and one line for each relation, including relations that are left out. The passages of
    `facts` must already be known.
    """
    sampling = sampling or QuestionSampling()
    by_relation: dict[str, list[Fact]] = {}
    for fact in facts:
        by_relation.setdefault(fact.relation, []).append(fact)
    questions: list[Question] = []
    notes: list[str] = []
    for relation in sorted(by_relation, key=relation_order):
        covered = sorted((fact for fact in by_relation[relation] if fact.is_covered), key=lambda fact: fact.subject)
        answers = len({answer for fact in covered for answer in fact.answers})
        summary = (
            f"{relation}: {quantity(len(by_relation[relation]), 'fact')}, {len(covered):,} covered by a "
            f"passage, {quantity(answers, 'different answer')}"
        )
        if len(covered) < sampling.least:
            notes.append(f"{summary}; left out, fewer than {sampling.least:,} facts")
        elif answers < sampling.least_answers:
            notes.append(f"{summary}; left out, fewer than {sampling.least_answers:,} answers")
        else:
            parts = _sample_by_split(covered, sampling.split, sampling.most, sampling.seed)
            questions += [
                _question(fact, wordings[relation], dataset, part, number, sampling.gold)
                for part, drawn in parts.items()
                for number, fact in enumerate(drawn)
            ]
            notes.append(
                f"{summary}; questions: {', '.join(f'{len(some):,} {part}' for part, some in parts.items() if some)}"
            )
    order = ("train", "dev", "test")
    return sorted(
        questions, key=lambda question: (order.index(question.split), relation_order(question.relation or ""))
    ), notes


def _sample_by_split(facts: Sequence[Fact], split: str | None, maximum: int, seed: int) -> dict[str, list[Fact]]:
    """Draw facts for train, dev and test without overlap. If `split` is given, facts are drawn only for that split."""
    by_subject = {fact.subject: fact for fact in facts}
    if split is not None:
        number = TRAINING * maximum if split == "train" else maximum
        return {split: [by_subject[subject] for subject in nested_sample(list(by_subject), number, seed)]}
    tenth = round(len(facts) * SHARE)
    test = nested_sample(list(by_subject), tenth, seed)
    rest = [subject for subject in by_subject if subject not in set(test)]
    dev = nested_sample(rest, tenth, seed)
    train = [subject for subject in rest if subject not in set(dev)]
    chosen = {
        "train": nested_sample(train, TRAINING * maximum, seed),
        "dev": nested_sample(dev, maximum, seed),
        "test": nested_sample(test, maximum, seed),
    }
    return {part: [by_subject[subject] for subject in some] for part, some in chosen.items()}


def _question(fact: Fact, wording: str, dataset: str, split: str, number: int, gold: bool) -> Question:
    return Question(
        id=f"{dataset}.{'-'.join(fact.relation.split())}.{split}.{number}",
        text=wording.replace("[X]", fact.subject),
        answers=tuple(fact.answers),
        relation=fact.relation,
        subject=fact.subject,
        template=wording,
        frequency=fact.frequency,
        dataset=dataset,
        split=as_split(split),
        gold=fact.gold if gold else (),
    )


def _largest_counts(unknown: Counter[str]) -> str:
    largest = ", ".join(f"{relation} ({quantity(count, 'triple')})" for relation, count in unknown.most_common(5))
    return largest + (f" and {len(unknown) - 5:,} more" if len(unknown) > 5 else "")
