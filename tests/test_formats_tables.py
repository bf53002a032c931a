"""Tables and folders of tables: recognised by what they hold, named when they cannot be read, read into a study."""

from __future__ import annotations

import csv
import json

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from typer.testing import CliRunner

from blindspot.app.cli import app
from blindspot.backend.core.study import Study
from blindspot.backend.data.formats import find_format
from blindspot.backend.data.importing.importer import import_passages, import_questions
from blindspot.backend.data.importing.qrels import import_qrels
from blindspot.db.errors import BadInput
from blindspot.db.gold import GoldMatches
from blindspot.db.records import Passage
from tests.studies import make_study

PASSAGES = [Passage("p1", "Oslo", 'Oslo, the "capital",\nlies on a fjord.'), Passage("p2", "", "Molde lies north.")]
QUESTIONS = [
    {"id": "q1", "question": "Which town is the capital?", "answers": ["Oslo", "Christiania"], "split": "dev"},
    {"id": "q2", "question": "Which town lies north?", "answers": ["Molde"], "split": "test"},
]


def write_csv(path, rows, separator=","):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=separator)
        writer.writeheader()
        writer.writerows({k: json.dumps(v) if isinstance(v, list) else v for k, v in row.items()} for row in rows)
    return path


def write_parquet(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.Table.from_pylist(rows), path)
    return path


def write_arrow(path, rows):
    table = pa.Table.from_pylist(rows)
    with pa.ipc.new_stream(str(path), table.schema) as writer:
        writer.write_table(table)
    return path


def write_saved(path, rows):
    from datasets import Dataset

    Dataset.from_list(rows).save_to_disk(path, num_shards=2)
    return path


def write_hub(path, rows):
    (path / "data").mkdir(parents=True)
    (path / "README.md").write_text("# Towns")
    write_parquet(path / "data" / "train-00000-of-00001.parquet", rows)
    return path


WRITERS = {
    "csv": lambda folder, rows: write_csv(folder / "table.csv", rows),
    "semicolons": lambda folder, rows: write_csv(folder / "table.csv", rows, ";"),
    "parquet": lambda folder, rows: write_parquet(folder / "table.parquet", rows),
    "arrow": lambda folder, rows: write_arrow(folder / "table.arrow", rows),
    "saved dataset": lambda folder, rows: write_saved(folder / "saved", rows),
    "folder of the Hub": lambda folder, rows: write_hub(folder / "hub", rows),
}


@pytest.fixture
def study(tmp_path):
    return make_study(tmp_path / "study", PASSAGES)


@pytest.mark.parametrize("kind", WRITERS)
def test_passages_of_every_table(tmp_path, kind):
    path = WRITERS[kind](tmp_path, [{"id": p.id, "title": p.title, "text": p.text} for p in PASSAGES])
    study = Study.create(tmp_path / "new")
    assert import_passages(study, path).rows == 2
    assert list(study.corpus.scan()) == PASSAGES
    assert import_passages(study, path).unchanged


@pytest.mark.parametrize("kind", WRITERS)
def test_columns_of_other_names_are_chosen(tmp_path, kind):
    path = WRITERS[kind](tmp_path, [{"nr": p.id, "heading": p.title, "words": p.text, "extra": 1} for p in PASSAGES])
    new = tmp_path / "new"
    new.mkdir()
    with pytest.raises(BadInput, match="has the columns nr, heading, words, extra; .*--format table --set text=COLUMN"):
        find_format(path, "passages")
    chosen = ["--format", "table", "--set", "id=nr", "--set", "title=heading", "--set", "text=words"]
    done = CliRunner().invoke(app, ["import", "passages", str(path), *chosen, "--study", str(new)])
    assert done.exit_code == 0, done.output
    assert list(Study.open(new).corpus.scan()) == PASSAGES


def test_a_column_that_is_not_there_is_named(tmp_path):
    path = write_csv(tmp_path / "t.csv", [{"id": "1", "text": "a"}])
    with pytest.raises(BadInput, match="there is no column 'words'; the columns are id, text"):
        import_passages(Study.create(tmp_path / "new"), path, format="table", settings=["text=words"])


def test_passages_without_ids_are_numbered_through_all_files(tmp_path):
    for name, text in (("train-00000-of-00002", "one"), ("train-00001-of-00002", "two")):
        write_parquet(tmp_path / "hub" / f"{name}.parquet", [{"text": text}])
    study = Study.create(tmp_path / "new")
    import_passages(study, tmp_path / "hub")
    assert [(p.id, p.text) for p in study.corpus.scan()] == [("1", "one"), ("2", "two")]


def test_a_passage_that_two_files_hold_is_refused_with_both_places(tmp_path):
    for name in ("a", "b"):
        write_parquet(tmp_path / "hub" / f"{name}.parquet", [{"id": name, "text": "x"}, {"id": "same", "text": "y"}])
    with pytest.raises(BadInput, match=r"b\.parquet:2: the id 'same' occurs twice, first in .*a\.parquet:2"):
        import_passages(Study.create(tmp_path / "new"), tmp_path / "hub")
    result = import_passages(Study.create(tmp_path / "other"), tmp_path / "hub", skip_bad=True)
    assert (result.rows, result.left_out) == (3, 1)


@pytest.mark.parametrize("kind", WRITERS)
def test_questions_of_every_table(tmp_path, study, kind):
    path = WRITERS[kind](tmp_path, [{**row, "gold": "p1"} for row in QUESTIONS])
    assert import_questions(study, path, dataset="towns").rows == 2
    assert [(q.id, q.text, list(q.answers), q.split, q.gold, q.dataset) for q in study.questions.all()] == [
        (row["id"], row["question"], row["answers"], row["split"], ("p1",), "towns") for row in QUESTIONS
    ]


def test_splits_of_a_dataset_are_those_of_its_folders(tmp_path, study):
    from datasets import Dataset, DatasetDict

    rows = {"validation": [{"query": "Who?", "answer": "Ada"}], "test": [{"query": "Where?", "answer": "Rome"}]}
    DatasetDict({name: Dataset.from_list(each) for name, each in rows.items()}).save_to_disk(tmp_path / "set")
    import_questions(study, tmp_path / "set")
    assert [(q.text, q.split, q.answers, q.dataset) for q in study.questions.all()] == [
        ("Who?", "dev", ("Ada",), "set"),
        ("Where?", "test", ("Rome",), "set"),
    ]
    with pytest.raises(BadInput, match="it holds 1 of split 'dev' and dataset 'set', 1 of split 'test'"):
        import_questions(study, tmp_path / "set", split="train")


def test_the_option_names_the_split_of_a_dataset_without_splits(tmp_path, study):
    """`datasets` calls a table without splits "train"."""
    path = write_hub(tmp_path / "hub", [{"question": "Who?", "answers": ["Ada"]}])
    import_questions(study, path, split="test")
    assert study.questions.all()[0].split == "test"


def test_answers_in_the_form_of_squad(tmp_path, study):
    answers = {"text": ["Ada", "Ada Lovelace"], "answer_start": [1, 1]}
    import_questions(study, write_parquet(tmp_path / "dev.parquet", [{"id": "1", "question": "Who?", "answers": answers}]), split="dev")  # fmt: skip
    assert study.questions.all()[0].answers == ("Ada", "Ada Lovelace")


@pytest.mark.parametrize("kind", WRITERS)
def test_qrels_of_every_table(tmp_path, study, kind):
    import_questions(study, write_csv(tmp_path / "q.csv", QUESTIONS))
    rows = [("q1", "p1", 2), ("q1", "p2", 0), ("q2", "p2", 1)]
    path = WRITERS[kind](tmp_path, [{"query-id": q, "corpus-id": p, "score": grade} for q, p, grade in rows])
    assert import_qrels(study, path).rows == 3
    assert GoldMatches(study.labels_path).grades() == {(q, p): grade for q, p, grade in rows}
    assert import_qrels(study, path).unchanged


def test_qrels_with_columns_of_other_names(tmp_path, study):
    import_questions(study, write_csv(tmp_path / "q.csv", QUESTIONS))
    path = write_csv(tmp_path / "judged.csv", [{"a": "q1", "b": "p1", "c": 3}])
    words = ["import", "qrels", str(path), "--format", "table", "--study", str(study.folder)]
    done = CliRunner().invoke(app, [*words, "--set", "question=a", "--set", "passage=b", "--set", "grade=c"])
    assert done.exit_code == 0, done.output
    assert GoldMatches(study.labels_path).grades() == {("q1", "p1"): 3}


def test_a_table_of_the_other_kind_says_how_to_import_it(tmp_path):
    path = write_parquet(tmp_path / "t.parquet", [{"id": "1", "question": "Who?"}])
    with pytest.raises(BadInput, match="looks like questions .*'blindspot import questions'"):
        find_format(path, "passages")


def test_json_lines_with_other_fields_name_them(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"docid": "d1", "contents": "A text."}\n')
    with pytest.raises(BadInput, match="has the columns docid, contents; .*--format table --set text=COLUMN"):
        find_format(path, "passages")
    study = Study.create(tmp_path / "new")
    import_passages(study, path, format="table")
    assert list(study.corpus.scan()) == [Passage("d1", "", "A text.")]


@pytest.mark.parametrize("kind", ["passages", "questions"])
def test_a_folder_of_something_else_says_what_it_holds(tmp_path, kind):
    (tmp_path / "scans").mkdir()
    for i in range(3):
        (tmp_path / "scans" / f"{i}.pdf").write_bytes(b"%PDF")
    with pytest.raises(
        BadInput, match=rf"this folder holds 3 \.pdf files; of folders, {kind} are read from these: .*table"
    ):
        find_format(tmp_path / "scans", kind)


def test_a_readme_beside_data_is_ignored(tmp_path):
    for name in ("beir", "eq/dataset/dev"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "beir" / "README.md").write_text("# Towns")
    (tmp_path / "beir" / "corpus.jsonl").write_text('{"_id": "1", "title": "", "text": "x"}\n')
    (tmp_path / "eq" / "README.md").write_text("# Questions")
    (tmp_path / "eq" / "dataset" / "dev" / "P19.dev.json").write_text("[]")
    assert find_format(tmp_path / "beir", "passages").name == "beir"
    assert find_format(tmp_path / "eq", "questions").name == "entityquestions"
    with pytest.raises(BadInput, match="looks like questions"):
        find_format(tmp_path / "eq", "passages")
