"""Rows of CSV, TSV, JSON lines, Parquet, Arrow and saved datasets."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from blindspot.backend.data.table_files import columns_of, rows_of
from blindspot.db.errors import BadInput

ROWS = [{"id": str(i), "text": f'line {i}, "quoted"\nand é', "grade": i % 3} for i in range(2500)]


def _csv(path, separator=","):
    import csv

    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(ROWS[0]), delimiter=separator)
        writer.writeheader()
        writer.writerows(ROWS)
    return path


def _json(path):
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def _parquet(path):
    parquet.write_table(pa.Table.from_pylist(ROWS), path, row_group_size=700)
    return path


def _arrow(path, stream=True):
    table = pa.Table.from_pylist(ROWS)
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=900)
    return path


def _saved(path):
    from datasets import Dataset

    Dataset.from_list(ROWS).save_to_disk(path, num_shards=3)
    return path


KINDS = {
    "csv": lambda folder: _csv(folder / "t.csv"),
    "semicolons": lambda folder: _csv(folder / "t.csv", ";"),
    "tsv": lambda folder: _csv(folder / "t.tsv", "\t"),
    "jsonl": lambda folder: _json(folder / "t.jsonl"),
    "parquet": lambda folder: _parquet(folder / "t.parquet"),
    "arrow stream": lambda folder: _arrow(folder / "t.arrow"),
    "arrow file": lambda folder: _arrow(folder / "t.arrow", stream=False),
    "saved dataset": lambda folder: _saved(folder / "set"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_gives_its_rows(tmp_path, kind):
    path = KINDS[kind](tmp_path)
    assert columns_of(path) == list(ROWS[0])
    rows = list(rows_of(path))
    assert [{**row.values, "grade": int(row.values["grade"])} for row in rows] == ROWS
    chosen = list(rows_of(path, ["text"]))
    assert [row.values for row in chosen] == [{"text": row["text"]} for row in ROWS]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "jsonl"])
def test_a_column_that_is_not_there_is_named_with_those_that_are(tmp_path, kind):
    with pytest.raises(BadInput, match=r"no column 'passage'; the columns are id, text, grade"):
        list(rows_of(KINDS[kind](tmp_path), ["id", "passage"]))


def test_lines_count_as_an_editor_counts_them(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b'\xef\xbb\xbfid,text\r\n1,"two\r\nlines"\r\n\r\n2,x,y\r\n3,"open" shut\r\n4,\xff\r\n5,last')
    rows = list(rows_of(path))
    assert [(row.line, type(row).__name__) for row in rows] == [
        (2, "TableRow"),
        (5, "BadInput"),
        (6, "BadInput"),
        (7, "BadInput"),
        (8, "TableRow"),
    ]
    assert rows[-1].values == {"id": "5", "text": "last"}
    assert "3 fields where the header names 2" in str(rows[1])
    assert "UTF-8" in str(rows[3])


def test_compressed_text_is_unpacked(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"id,text\n1,a\n"))
    assert [row.values for row in rows_of(path)] == [{"id": "1", "text": "a"}]


def test_a_dict_of_splits_names_the_split_of_each_row(tmp_path):
    from datasets import Dataset, DatasetDict

    parts = {"train": ROWS[:3], "validation": ROWS[3:5]}
    DatasetDict({name: Dataset.from_list(rows) for name, rows in parts.items()}).save_to_disk(tmp_path / "d")
    rows = list(rows_of(tmp_path / "d", ["id"]))
    assert [(row.split, row.values["id"]) for row in rows] == [
        *(("train", row["id"]) for row in ROWS[:3]),
        *(("validation", row["id"]) for row in ROWS[3:5]),
    ]


def test_a_repository_of_the_hub_names_splits_by_its_files(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "README.md").write_text("# A dataset")
    for name in ("train-00000-of-00001", "test-00000-of-00001"):
        parquet.write_table(pa.table({"id": [name]}), tmp_path / "data" / f"{name}.parquet")
    assert [(row.split, row.line) for row in rows_of(tmp_path)] == [("test", 1), ("train", 1)]


def test_a_folder_without_a_table_says_so(tmp_path):
    (tmp_path / "notes.md").write_text("x")
    with pytest.raises(BadInput, match="holds no table"):
        list(rows_of(tmp_path))


def test_a_saved_dataset_reads_nothing_outside_its_folder(tmp_path):
    _arrow(tmp_path / "secret.arrow")
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "../secret.arrow"}]}))
    with pytest.raises(BadInput, match="not in this folder"):
        list(rows_of(folder))


@pytest.mark.parametrize("kind", ["parquet", "arrow stream", "arrow file"])
def test_a_broken_file_is_one_line(tmp_path, kind):
    path = KINDS[kind](tmp_path)
    whole = path.read_bytes()
    refused = 0
    for cut in (9, len(whole) // 3, len(whole) // 2, len(whole) - 3):
        path.write_bytes(whole[:cut])
        try:
            list(rows_of(path))
        except BadInput as error:
            assert "\n" not in str(error) and str(path) in str(error)
            refused += 1
    assert refused >= 3  # a stream may lack its end mark without loss


def test_an_empty_file_says_so(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"")
    with pytest.raises(BadInput, match="empty"):
        list(rows_of(path))


SMALL = """
import resource, sys
from blindspot.backend.data.table_files import rows_of
import pyarrow.parquet
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert sum(len(row.values["text"]) for row in rows_of(sys.argv[1], ["text"])) == 100_000_000
assert "datasets" not in sys.modules
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


def test_a_large_row_group_is_read_in_bounded_memory(tmp_path):
    # 100,000 texts of 1,000 characters in one row group of 100 MB.
    texts = pa.array([os.urandom(500).hex() for _ in range(1000)])
    table = pa.table({"text": pa.concat_arrays([texts] * 100)})
    path = tmp_path / "t.parquet"
    parquet.write_table(table, path, row_group_size=len(table), use_dictionary=False, compression="none")
    made = subprocess.run([sys.executable, "-c", SMALL, str(path)], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    assert int(made.stdout) < 70  # MB
