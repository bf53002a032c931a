"""A finished training set: an immutable folder `training_sets/<name>/` with pairs.parquet, left_out.jsonl and
manifest.json.

pairs.parquet is sorted by question id and has one row group for some hundred questions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from blindspot.backend.core.manifest import Manifest

if TYPE_CHECKING:
    import pyarrow

    from blindspot.backend.core.study import Study

PAIRS, LEFT_OUT = "pairs.parquet", "left_out.jsonl"


class TrainingSet:
    """A finished set. Reads its pairs one row group at a time, so a set may be larger than the memory.

    manifest: `request` (the specification), `inputs` (hashes, the last label event), `fingerprint` (equal for equal
    inputs), `counts`, `left_out` (questions by reason), `sha256` of the files.
    """

    def __init__(self, folder: Path, manifest: dict):
        self.folder, self.name, self.manifest = folder, folder.name, manifest

    @classmethod
    def open(cls, study: Study, name: str) -> TrainingSet:
        """Open a set. Raises Missing if it is absent or unfinished, and Refused if it was made from other passages."""
        manifest = study.finished_manifest(
            "training_sets", name, "training set", "training-set build NAME --run RUN", "build another"
        )
        return cls(study.path("training_sets", name), manifest)

    def groups(self, questions: Sequence[str] | None = None) -> Iterator[tuple[str, list[Pair]]]:
        """Yield (question id, its pairs) ordered by question id, for all questions or for the given ones.

        Positives come first, then negatives by rank, then dropped pairs.
        """
        return read_groups(self.folder / PAIRS, questions)

    def examples(self, hard: bool = False) -> Iterator[tuple[str, list[Pair], list[Pair]]]:
        """Yield (question id, positives, negatives) for a trainer.

        Each question has at least one positive, but may have no negatives.

        The most trusted positives, those labelled by people, come first.

        Args:
            hard: only hard negatives (mined ones and people's); otherwise random ones and other questions' gold as
                well.
        """
        for question, pairs in self.groups():
            negatives = [pair for pair in pairs if pair.role == "negative" and (pair.hard or not hard)]
            yield question, positives_of(pairs), negatives

    def roles(self, question: str) -> dict[str, tuple[Role, Source]]:
        """Return (role, source) for each passage of a question; {} if the question is not in the set."""
        return {pair.passage: (pair.role, pair.source) for _, pairs in self.groups([question]) for pair in pairs}

    def hard_negatives(self, questions: Iterable[str] | None = None) -> dict[str, set[str]]:
        """Return the hard negatives of each question.

        `blindspot.backend.judging.batches.make_batch` uses them as its argument `trained`.
        """
        wanted = None if questions is None else list(questions)
        found = {question: {pair.passage for pair in pairs if pair.hard} for question, pairs in self.groups(wanted)}
        return {question: passages for question, passages in found.items() if passages}

    def left_out(self) -> dict[str, str]:
        """Return for each question that was left out the reason why."""
        with open(self.folder / LEFT_OUT, encoding="utf-8") as file:
            return {row["question"]: row["reason"] for row in map(json.loads, file)}


def positives_of(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the positives, most trusted first: labelled by people, gold, distant supervision, proposed by models."""
    return sorted(
        (pair for pair in pairs if pair.role == "positive"), key=lambda pair: (SOURCES.index(pair.source), pair.passage)
    )


def roles(study: Study, name: str, question: str) -> dict[str, tuple[Role, Source]]:
    """Return (role, source) for each passage of a question in a set. Raises the same errors as `TrainingSet.open`."""
    return TrainingSet.open(study, name).roles(question)


def training_sets(study: Study) -> dict[str, Manifest]:
    """Return the finished sets, oldest first: name to manifest."""
    return study.parts("training_sets")


Role = Literal["positive", "negative", "dropped"]
Source = Literal["label", "gold", "distant", "cross_encoder", "judge", "run", "random", "other_gold"]
ROLES: tuple[Role, ...] = ("positive", "negative", "dropped")
SOURCES: tuple[Source, ...] = (
    "label",
    "gold",
    "distant",
    "cross_encoder",
    "judge",
    "run",
    "random",
    "other_gold",
)
"""The sources of positives, the most trusted first. `other_gold`: a gold passage of another question, taken as a
negative.
"""
PROPOSED: tuple[Source, ...] = ("cross_encoder", "judge")
"""Sources of pseudo-positives: mined passages to which a model gives a high probability."""
HARD = ("label", "run")
"""Sources of hard negatives; negatives of all other sources are easy."""


class Pair(NamedTuple):
    """One passage for one question, with its role in the training set.

    Attributes:
        role: positive, negative, or dropped (seen, but neither).
        source: who decided last, of SOURCES.
        run, rank, score: where the passage was mined; None if it was not.
        probability: the model's; None is unknown.
        answer: whether the passage contains an answer; None if the question has no answers.
        label: people's label ("open" in dispute); None if nobody judged the pair or the set uses no labels.
        machine, origin: the role and the source without people's labels; None if only people named the passage.
        reason: why the pair has this role, one of the reasons in `blindspot.backend.training_sets.denoising`.
    """

    question: str
    passage: str
    role: Role
    source: Source
    run: str | None
    rank: int | None
    score: float | None
    probability: float | None
    answer: bool | None
    label: str | None
    machine: Role | None
    origin: Source | None
    reason: str

    @property
    def mined(self) -> bool:
        """Whether the passage was mined from a run as a possible negative."""
        return is_mined(self.rank, self.origin)

    @property
    def hard(self) -> bool:
        return self.role == "negative" and self.source in HARD


def is_mined(rank: int | None, origin: Source | None) -> bool:
    """Return whether a pair with this rank and origin was mined from a run."""
    return rank is not None and origin in ("run", *PROPOSED)


def schema() -> pyarrow.Schema:
    import pyarrow as pa

    types = {"rank": pa.int32(), "score": pa.float32(), "probability": pa.float64(), "answer": pa.bool_()}
    return pa.schema([(name, types.get(name, pa.string())) for name in Pair._fields])


def as_table(pairs: Sequence[Pair]) -> pyarrow.Table:
    import pyarrow as pa

    columns = zip(*pairs, strict=True) if pairs else [[] for _ in Pair._fields]
    wanted = schema()
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, wanted, strict=True)], schema=wanted
    )


def read_groups(path: Path, questions: Sequence[str] | None = None) -> Iterator[tuple[str, list[Pair]]]:
    """Yield (question id, its pairs) ordered by question id, for all questions or for the named ones.

    Only one row group is in memory at a time.
    """
    import pyarrow.parquet as parquet

    wanted = None if questions is None else set(questions)
    with parquet.ParquetFile(path) as file:
        for number in range(file.num_row_groups):
            if wanted is not None and not _may_hold(file.metadata.row_group(number), wanted):
                continue
            columns = file.read_row_group(number).to_pydict()
            rows = map(Pair._make, zip(*(columns[name] for name in Pair._fields), strict=True))
            for question, pairs in groupby(rows, attrgetter("question")):
                if wanted is None or question in wanted:
                    yield question, list(pairs)


def _may_hold(group, question_ids: set[str]) -> bool:
    statistics = group.column(0).statistics
    if statistics is None or not statistics.has_min_max:
        return True
    return any(statistics.min <= question <= statistics.max for question in question_ids)
