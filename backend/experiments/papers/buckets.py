"""EntityQuestions, Figure 1: accuracy by frequency of the entity, for random entities and for entities seen in training
(section 4.1).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median_low
from typing import TypeAlias

import numpy as np

from blindspot.analysis.buckets import BUCKETS, FEW
from blindspot.analysis.relations import relation_name
from blindspot.backend.experiments.bucket_measures import (
    Bucket,
    BucketDifference,
    BucketSuccess,
    bucket_numbers,
    is_seen,
)
from blindspot.backend.experiments.by_relation import (
    LEAST,
    choose_relations,
    claim_cutoff,
    column,
    count_by_relation,
    restrict_to_trained_set,
)
from blindspot.backend.experiments.hits import Bm25Hits, DenseHits, Index, RunPart
from blindspot.backend.experiments.parts import QuestionSelection, StudyEncoder
from blindspot.backend.experiments.plan import Cell, ExperimentPlan, Measure, PaperClaim, Plot, Setting
from blindspot.backend.experiments.workbench import Workbench
from blindspot.backend.text.number_words import quantity
from blindspot.db.errors import Refused

TAKES = frozenset({"encoders", "relations"})
DEFAULTS = {"ks": (20,), "on": ""}
OFFICIAL = {"random entities": "common-random-buckets", "entities of training questions": "nq-seen-buckets"}
"""The paper's lines `rand ent` and `train ent`, and their question sets."""
RANDOM = OFFICIAL["random entities"]
BM25 = "BM25"


@dataclass(frozen=True)
class BucketLine:
    """A line of the figure.

    Attributes:
        relation: its display name; "" for all questions.
        entities: the entities that the line's questions ask about, in words.
        official, seen: see `Bucket`.
        frequencies: the known frequencies of the questions by bucket, for buckets with enough questions.
        n: number of questions of the same buckets.
    """

    relation: str
    entities: str
    selection: QuestionSelection
    official: bool
    seen: bool | None
    n: dict[int, int] = field(default_factory=dict)
    frequencies: dict[int, list[int]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.relation}, {self.entities}" if self.relation else self.entities

    def group(self, number: int) -> str:
        """Return a bucket in words, such as "group 6 (about 4 mentions)": their median."""
        if number == BUCKETS:
            return "never mentioned"
        if not self.frequencies[number]:
            return f"group {number}"
        return f"group {number} (about {quantity(self.mentions(number), 'mention')})"

    def mentions(self, number: int) -> int:
        """Return the median of the frequencies in a bucket that has some."""
        return median_low(self.frequencies[number])

    def groups(self, numbers: Sequence[int]) -> str:
        """Return some buckets in words, such as "groups 1 to 3 (about 30 mentions)"."""
        if len(numbers) == 1:
            return self.group(numbers[0])
        frequencies = [frequency for number in numbers for frequency in self.frequencies[number]]
        about = f" (about {quantity(median_low(frequencies), 'mention')})" if frequencies else ""
        return f"groups {min(numbers)} to {max(numbers)}{about}"

    def row(self, number: int) -> str:
        return f"{self.name}, {self.group(number)}"

    def bucket(self, system: str, number: int, k: int) -> Bucket:
        return Bucket(_hits(system, self.selection, k), number, self.official, self.seen)


Buckets: TypeAlias = Sequence[tuple[BucketLine, int]]


def plan(setting: Setting, bench: Workbench) -> ExperimentPlan:
    encoders, k, at = setting.compared_encoders, max(setting.ks), claim_cutoff(setting.ks)
    figures, notes = _figure_lines(setting, bench)
    cells: list[Cell] = []
    claims: list[PaperClaim] = []
    series: dict[str, list[tuple[float, str, str]]] = {}

    ticks: dict[float, str] = {
        number: f"{number}: {line.mentions(number):,}"
        for lines in figures
        for line in lines
        for number in line.n
        if line.frequencies[number]
    }

    def add(row: str, measure: Callable[[str, int], Measure]) -> None:
        cells.extend(
            Cell(row, column(system, k, setting.ks), (measure(system, k),))
            for system in (BM25, *encoders)
            for k in setting.ks
        )

    for lines in figures:
        for line in lines:
            for number in line.n:
                add(line.row(number), partial(_in_bucket, line, number, k))
            for system in (BM25, *encoders):
                series[f"{system}, {line.name}"] = [
                    (number, line.row(number), column(system, at, setting.ks)) for number in line.n
                ]
        for row, more, less in _contrasts(lines, 1 if setting.small else FEW):
            add(row, partial(_bucket_difference, more, less, k))
            for encoder in encoders:
                by_encoder, by_bm25 = ((row, column(system, at, setting.ks)) for system in (encoder, BM25))
                claims += _claims(row, more[0][0] is less[0][0], encoder, by_encoder, by_bm25)
    return ExperimentPlan(
        cells,
        claims,
        plot=Plot(
            "frequency group: median of mentions" if ticks else "frequency group (0: the most frequent entities)",
            f"Success@{at}",
            series,
            ticks=ticks,
        ),
        notes=notes,
    )


def _in_bucket(line: BucketLine, number: int, depth: int, system: str, k: int) -> Measure:
    return BucketSuccess(line.bucket(system, number, depth), k)


def _bucket_difference(more_frequent: Buckets, less_frequent: Buckets, depth: int, system: str, k: int) -> Measure:
    of_more, of_less = (
        tuple(line.bucket(system, number, depth) for line, number in buckets)
        for buckets in (more_frequent, less_frequent)
    )
    return BucketDifference(of_more, of_less, k)


def _claims(
    row: str, by_frequency: bool, encoder: str, by_encoder: tuple[str, str], by_bm25: tuple[str, str]
) -> list[PaperClaim]:
    compared: dict[str, tuple[str, str] | None] = {"{} is better on entities of training questions": None}
    if by_frequency:
        compared = {
            "{} is better on frequent than on rare entities": None,
            "BM25 depends on the frequency less than {}": by_bm25,
        }
    return [PaperClaim(says.format(encoder), by_encoder, less, about=row) for says, less in compared.items()]


def _hits(system: str, selection: QuestionSelection, k: int) -> RunPart:
    return Bm25Hits(selection, k) if system == BM25 else DenseHits(selection, k, Index(StudyEncoder(system)))


def _figure_lines(setting: Setting, bench: Workbench) -> tuple[list[list[BucketLine]], list[str]]:
    """Return the lines of each figure: one figure for each relation, or one for all questions if no relation is
    named.
    """
    datasets = {count["dataset"] for count in bench.questions.counts()}
    minimum = 1 if setting.small else LEAST
    if not setting.on and datasets >= set(OFFICIAL.values()):
        relations, left_out = choose_relations(
            setting,
            count_by_relation(bench, QuestionSelection(RANDOM)),
            f"questions in {RANDOM}",
        )
        figures = [
            [
                BucketLine(
                    relation_name(relation),
                    entities,
                    setting.question_selection(dataset, relations=(relation,)),
                    True,
                    None,
                )
                for entities, dataset in OFFICIAL.items()
                if relation in count_by_relation(bench, QuestionSelection(dataset))
            ]
            for relation in relations
        ]
        notes = [
            "The frequency groups are the official buckets of EntityQuestions' sets common-random-buckets and nq-seen-buckets. "
            "Entities of training questions occur in questions of Natural Questions. Some questions are in both sets, so the "
            "interval of the difference is conservative.",
            *left_out,
        ]
    else:
        on = restrict_to_trained_set(replace(setting, on=setting.on or "dev"), bench).on
        relations = (
            choose_relations(setting, count_by_relation(bench, QuestionSelection(on)), f"questions in {on}")[0]
            if setting.relations
            else ()
        )
        asked = {
            relation_name(relation): setting.question_selection(on, relations=(relation,)) for relation in relations
        }
        figures = [
            [
                BucketLine(relation, entities, each, False, seen)
                for entities, seen in (
                    ("entities outside the training questions", False),
                    ("entities of training questions", True),
                )
            ]
            for relation, each in (asked or {"": setting.question_selection(on)}).items()
        ]
        notes = [
            "Frequency groups split each relation's questions by the frequency of the subject, so that the frequencies in "
            "each group have about the same sum; the most frequent entities are in group 0. Frequencies: "
            f"{bench.questions.frequency_source}."
        ]
    figures = [[line for each in lines if (line := _counted(bench, each, minimum)).n] for lines in figures]
    if not any(figures):
        raise Refused(
            "no frequency group has enough questions with a known frequency; count frequencies with 'blindspot import "
            "frequencies --count'"
        )
    return figures, [
        *notes,
        f"Groups with fewer than {minimum} questions are left out; claims compare the most frequent and the rarest "
        f"groups, as few as have at least {FEW} together.",
    ]


def _counted(bench: Workbench, line: BucketLine, minimum: int) -> BucketLine:
    """Return the line with its buckets of at least `minimum` questions."""
    questions = line.selection.questions_of(bench)
    numbers = bucket_numbers(questions, line.official)
    if line.seen is not None:
        numbers = np.where(is_seen(bench, questions) == line.seen, numbers, -1)
    counts = Counter(numbers[numbers >= 0].tolist())
    sizes = {number: counts[number] for number in sorted(counts) if counts[number] >= minimum}
    frequencies = {
        number: [
            question.frequency
            for question, of in zip(questions, numbers, strict=True)
            if of == number and question.frequency is not None
        ]
        for number in sizes
    }
    return replace(line, n=sizes, frequencies=frequencies)


def _contrasts(lines: Sequence[BucketLine], minimum: int) -> Iterator[tuple[str, Buckets, Buckets]]:
    """Yield (row, buckets, buckets to compare with). The comparisons are the most with the least frequent subjects of
    the first line, each from as few buckets as have `minimum` questions together, and the two lines bucket by bucket.
    """
    if not lines:
        return
    line, mentioned = lines[0], [number for number in lines[0].n if number < BUCKETS]
    first, last = _pooled(line, mentioned, minimum), _pooled(line, mentioned[::-1], minimum)
    if first and last and not set(first) & set(last):
        row = f"{line.name}, {line.groups(first)} less {line.groups(last)}"
        yield row, [(line, number) for number in first], [(line, number) for number in last]
    shared = [number for number in lines[0].n if number in lines[-1].n]
    if len(lines) > 1 and shared and sum(lines[-1].n[number] for number in shared) >= minimum:
        yield (
            f"{lines[1].name} less {lines[0].entities}, same groups",
            [(lines[1], number) for number in shared],
            [(lines[0], number) for number in shared],
        )


def _pooled(line: BucketLine, numbers: Sequence[int], minimum: int) -> list[int]:
    """Return the first buckets that have `minimum` questions together, ascending; [] if all have fewer."""
    chosen: list[int] = []
    for number in numbers:
        chosen.append(number)
        if sum(line.n[each] for each in chosen) >= minimum:
            return sorted(chosen)
    return []
