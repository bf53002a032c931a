"""The common parts of all export formats: options, the registry, and a stream of a set's rows with their texts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from blindspot.backend.core.registry import Registry, instance_check
from blindspot.backend.core.study import Study
from blindspot.backend.data.formats.files import open_atomically
from blindspot.backend.training_sets.export_options import ExportOptions
from blindspot.backend.training_sets.training_set import Pair, TrainingSet, positives_of
from blindspot.db.records import Passage, Question

_BLOCK = 100  # questions whose texts are read together


class PairPassage(NamedTuple):
    """A pair with its passage."""

    pair: Pair
    passage: Passage


class ExportRow(NamedTuple):
    """A question with its passages: positives with the most trusted first, hard negatives (drawn according to
    `ExportOptions`), and easy negatives.
    """

    question: Question
    positives: list[PairPassage]
    hard: list[PairPassage]
    easy: list[PairPassage]


class ExportRows:
    """The rows of a set, read in blocks of questions. Can be iterated several times."""

    def __init__(
        self, study: Study, training_set: TrainingSet, options: ExportOptions, progress: Callable | None = None
    ):
        self.study, self.training_set, self.options, self._progress = study, training_set, options, progress

    def __iter__(self) -> Iterator[ExportRow]:
        groups, done = self.training_set.groups(), 0
        while block := list(islice(groups, _BLOCK)):
            if self._progress:
                self._progress(done, self.training_set.manifest["counts"]["questions"], "writing the training set")
            yield from self._rows(block)
            done += len(block)

    def one_text(self, passage: Passage) -> str:
        return self.options.template.format(title=passage.title, text=passage.text)

    def _rows(self, block: list[tuple[str, list[Pair]]]) -> Iterator[ExportRow]:
        chosen = [
            (
                positives_of(pairs),
                self._draw_pairs([pair for pair in pairs if pair.hard]),
                [pair for pair in pairs if pair.role == "negative" and not pair.hard],
            )
            for _, pairs in block
        ]
        passages = self.study.corpus.by_id({pair.passage for kinds in chosen for pairs in kinds for pair in pairs})
        questions = self.study.questions.with_ids([question for question, _ in block])
        for question, kinds in zip(questions, chosen, strict=True):
            yield ExportRow(
                question, *([PairPassage(pair, passages[pair.passage]) for pair in pairs] for pairs in kinds)
            )

    def _draw_pairs(self, pairs: list[Pair]) -> list[Pair]:
        if self.options.draw == "random":
            seed = self.options.seed
            pairs = sorted(
                pairs, key=lambda pair: hashlib.sha256(f"{seed}\0{pair.question}\0{pair.passage}".encode()).digest()
            )
        return pairs[: self.options.negatives]


@dataclass(frozen=True)
class ExportFormat:
    """One format of exported training sets.

    Attributes:
        title: the format in a few words, as in "75 questions, in TITLE".
        help: what trainers read it.
        write: takes the folder to write into and the rows; returns the number of rows of each file, and notes.
        negatives: default number of hard negatives of a question; None for all.
        has_rows: whether `ExportOptions.rows` limits the rows of a question.
        has_easy: whether it has random negatives and gold of other questions besides hard negatives.
    """

    name: str
    title: str
    help: str
    write: Callable[[Path, ExportRows], tuple[dict[str, int], tuple[str, ...]]]
    negatives: int | None = None
    has_rows: bool = False
    has_easy: bool = True


EXPORTS: Registry[ExportFormat] = Registry(
    "training-set export format",
    package="blindspot.backend.training_sets.exports",
    group="blindspot.training_set_exports",
    order=lambda entry: entry.name,
    check=instance_check(ExportFormat),
)


def write_lines(path: Path, records: Iterable[Any]) -> int:
    """Write JSON lines and return their number."""
    count = 0
    with open_atomically(path) as file:
        for record in records:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
            count += 1
    return count


def left_out_note(count: int, noun: str, reason: str) -> tuple[str, ...]:
    return (f"{count:,} {noun} left out: {reason}",) if count else ()
