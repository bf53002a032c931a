"""Parquet: a row for each positive and negative, with texts and everything known about the pair."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from blindspot.backend.training_sets.exports.base import EXPORTS, ExportFormat, ExportRow, ExportRows
from blindspot.db.backup import sync_to_disk

FILE = "train.parquet"
_PAIR = ("role", "source", "run", "rank", "score", "probability", "answer", "label", "reason")
_BLOCK = 50  # questions in a row group


def write(folder: Path, rows: ExportRows) -> tuple[dict[str, int], tuple[str, ...]]:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    from blindspot.backend.training_sets.training_set import schema

    texts = [pa.field(name, pa.string()) for name in ("question_id", "question", "passage_id", "title", "text")]
    texts.insert(2, pa.field("answers", pa.list_(pa.string())))
    expected_schema = pa.schema([*texts, *(schema().field(name) for name in _PAIR)])
    count, source = 0, iter(rows)
    with parquet.ParquetWriter(folder / FILE, expected_schema, compression="zstd") as writer:
        while block := list(islice(source, _BLOCK)):
            records = [record for row in block for record in _records(row)]
            writer.write_table(pa.Table.from_pylist(records, schema=expected_schema))
            count += len(records)
    sync_to_disk(folder / FILE)
    return {FILE: count}, ()


def _records(row: ExportRow) -> Iterator[dict[str, Any]]:
    question = row.question
    for pair, passage in (*row.positives, *row.hard, *row.easy):
        yield {
            "question_id": question.id,
            "question": question.text,
            "answers": list(question.answers),
            "passage_id": passage.id,
            "title": passage.title,
            "text": passage.text,
            **{name: getattr(pair, name) for name in _PAIR},
        }


EXPORTS.register(
    ExportFormat(
        "parquet",
        "Parquet, a row for each pair, with texts and everything known of it",
        "Notebooks and `datasets`: every pair with its texts, score, label and reason.",
        write,
    )
)
