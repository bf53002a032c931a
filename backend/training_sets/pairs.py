"""A pair of a training set, and the file of pairs: Parquet, sorted by question id, a row group for some hundred questions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    import pyarrow

Role = Literal["positive", "negative", "dropped"]
Source = Literal["label", "gold", "distant", "cross_encoder", "run", "random", "other_gold"]
ROLES = ("positive", "negative", "dropped")
SOURCES = ("label", "gold", "distant", "cross_encoder", "run", "random", "other_gold")
"""In the order of trust. `other_gold`: a gold passage of another question, taken as a negative."""
HARD = ("label", "run")
"""Sources of hard negatives; the others' negatives are easy ones."""


class Pair(NamedTuple):
    """What became of a passage for a question.

    role: positive, negative, or dropped (seen, and neither).
    source: who has the last word on it, of SOURCES.
    run, rank, score: where it was mined, where it was.
    probability: a cross-encoder's; None is unknown. answer: whether it holds an answer; None where the question has none.
    label: what people hold of it ("open" in dispute); None where nobody judged it or labels are not used.
    machine, origin: the role and the source that it has without people's labels; None where only they brought it in.
    reason: why it has this role, of `backend.training_sets.denoising`.
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
        """Whether a run put it among the negatives to be."""
        return self.rank is not None and self.origin in ("run", "cross_encoder")

    @property
    def hard(self) -> bool:
        return self.role == "negative" and self.source in HARD


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
    """(question id, its pairs), by question id; some questions alone where they are named. One row group is held at a time."""
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


def _may_hold(group, wanted: set[str]) -> bool:
    statistics = group.column(0).statistics
    if statistics is None or not statistics.has_min_max:
        return True
    return any(statistics.min <= question <= statistics.max for question in wanted)
