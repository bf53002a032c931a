"""`blindspot check` reads every form of training file and writes it back, changed only where it must be."""

from __future__ import annotations

import json
import subprocess
import sys

import pyarrow.parquet as parquet
import pytest

from blindspot.backend.checking.check import check
from blindspot.backend.checking.reading import open_training_file
from blindspot.backend.checking.sample import peoples_labels
from blindspot.db.errors import BadInput
from tests import training_files as made
from tests.training_files import contents, judge, unlabelled_copy

OUTPUTS = ("triplet", "n-tuple", "labeled-pair", "labeled-list")
KINDS = ("jsonl", "parquet", "csv", "arrow", "saved")
MINED = [
    (output, kind, scores)
    for output in OUTPUTS
    for kind in KINDS
    for scores in (False, True)
    if not (output == "labeled-list" and kind == "csv")  # see test_lists_in_csv_are_refused
]
OTHERS = {
    "dpr": lambda folder: made.dpr(folder / "train.json"),
    "dpr in lines": lambda folder: made.dpr(folder / "train.json", None),
    "tevatron": lambda folder: made.tevatron(folder / "train.jsonl"),
    "flagembedding": lambda folder: made.flag_embedding(folder / "train.jsonl"),
    "rocketqa": lambda folder: made.rocketqa(folder / "dual.tsv"),
    "rocketqa cross": lambda folder: made.rocketqa_cross(folder / "cross.tsv"),
    "msmarco": lambda folder: made.msmarco(folder / "qidpidtriples.tsv"),
    "beir": lambda folder: made.beir(folder / "beir"),
}


def plain(path):
    """The rows of a table, as its library reads them."""
    from datasets import load_from_disk

    if path.is_dir():
        return load_from_disk(path).to_list()
    if path.suffix == ".parquet":
        return parquet.read_table(path).to_pylist()
    if path.suffix == ".arrow":
        from datasets import Dataset

        return Dataset.from_file(str(path)).to_list()
    if path.suffix == ".csv":
        import pandas

        return pandas.read_csv(path).to_dict("records")
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(("output", "kind", "scores"), MINED)
def test_mined_negatives_come_in_and_go_back_byte_for_byte(tmp_path, output, kind, scores):
    dataset = made.mined(output, scores)
    path = made.saved(dataset, kind, tmp_path / "in")
    found, out = unlabelled_copy(path, tmp_path)
    assert found.facts.rows == len(dataset)
    assert found.facts.questions == 24 and found.facts.positives == 24
    assert found.facts.negatives == 24 * 3
    assert contents(out) == contents(path)


@pytest.mark.parametrize("form", OTHERS)
def test_other_forms_come_in_and_go_back_byte_for_byte(tmp_path, form):
    (tmp_path / "in").mkdir()
    path = OTHERS[form](tmp_path / "in")
    found, out = unlabelled_copy(path, tmp_path)
    assert (found.facts.questions, found.facts.positives, found.facts.negatives) == (24, 24, 48)
    assert contents(out) == contents(path)


@pytest.mark.parametrize(("output", "kind", "scores"), MINED)
def test_a_false_negative_becomes_a_positive_and_no_other_row_changes(tmp_path, output, kind, scores):
    dataset = made.mined(output, scores)
    path = made.saved(dataset, kind, tmp_path / "in")
    found = check(path, tmp_path / "study")
    [(question, passage)] = judge(found, [5])
    out = tmp_path / f"out-{path.name}"
    found.write(out)
    before, after = plain(path), plain(out)
    if kind == "parquet":
        old, new = parquet.ParquetFile(path), parquet.ParquetFile(out)
        assert new.schema_arrow.equals(old.schema_arrow, check_metadata=True)
        assert new.metadata.num_row_groups == old.metadata.num_row_groups
        assert new.metadata.row_group(0).column(0).compression == old.metadata.row_group(0).column(0).compression
    assert [list(row) for row in after[:1]] == [list(row) for row in before[:1]]  # columns and their order
    touched = [row for row in before if row["query"] == question]
    assert [row for row in after if row["query"] != question] == [row for row in before if row["query"] != question]
    mine = [row for row in after if row["query"] == question]
    assert mine != touched
    if output in ("triplet", "n-tuple"):
        negatives = [value for row in mine for name, value in row.items() if name.startswith("negative")]
        assert passage not in negatives
        assert [row["answer"] for row in mine].count(passage) == 1
        assert len({len(row) for row in after}) == 1
    elif output == "labeled-pair":
        rows = [row for row in mine if row["answer"] == passage]
        assert rows == [] if scores else [float(row["label"]) for row in rows] == [1.0]
    else:
        [row] = mine
        listed = dict(zip(row["answer"], row.get("labels", row.get("scores")), strict=True))
        assert passage not in listed if scores else listed[passage] == 1
    changes = [json.loads(line) for line in (tmp_path / f"out-{path.name}.changes.jsonl").read_text().splitlines()]
    assert {(each["question_text"], each["passage_text"]) for each in changes} == {(question, passage[:200])}
    assert all("judged" in each["reason"] for each in changes)


@pytest.mark.parametrize("form", OTHERS)
def test_a_false_negative_of_another_form_becomes_a_positive(tmp_path, form):
    (tmp_path / "in").mkdir()
    path = OTHERS[form](tmp_path / "in")
    found = check(path, tmp_path / "study")
    [(question, passage)] = judge(found, [5])
    out = tmp_path / "out" if path.is_dir() else tmp_path / "in" / f"out-{path.name}"
    found.write(out)
    again = check(out, tmp_path / "again")
    places = again.checked_study.occurrences
    numbers = {
        "question": next(q.id for q in again.study.questions.all() if q.text == question),
        "passage": next(p.id for p in again.study.corpus.scan() if p.text == passage),
    }
    key = (int(numbers["question"][1:]) - 1) << 32 | (int(numbers["passage"][1:]) - 1)
    assert places.positive[places.keys == key].tolist() == [True]
    assert again.facts.positives == found.facts.positives + 1
    assert again.facts.negatives == found.facts.negatives - 1


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("columns", [3, 4])
def test_a_line_that_qrels_gain_looks_as_the_others(tmp_path, columns, end):
    path = made.beir(tmp_path / "beir")
    qrels = path / "qrels" / "train.tsv"
    lines = [line.split("\t") for line in qrels.read_text().splitlines()[1:]]
    rows = [[line[0], *["0"] * (columns - 3), *line[1:]] for line in lines]
    qrels.write_text(end.join("\t".join(row) for row in rows), newline="")  # the last line has no end
    found = check(path, tmp_path / "study")
    judge(found, [5])
    found.write(tmp_path / "out")
    before, after = qrels.read_bytes(), (tmp_path / "out" / "qrels" / "train.tsv").read_bytes()
    gained = after.removeprefix(before).decode()
    assert gained.startswith(end) and gained.endswith(end) and gained.count(end) == 2
    assert len(gained.split("\t")) == columns


@pytest.mark.parametrize("output", OUTPUTS)
def test_dropping_takes_the_negative_out(tmp_path, output):
    path = made.saved(made.mined(output), "jsonl", tmp_path / "in")
    found = check(path, tmp_path / "study")
    [(question, passage)] = judge(found, [5])
    found.write(tmp_path / "out.jsonl", relabel=False)
    again = check(tmp_path / "out.jsonl", tmp_path / "again")
    assert again.facts.positives == found.facts.positives
    rows = [row for row in plain(tmp_path / "out.jsonl") if row["query"] == question]
    assert passage not in json.dumps(rows, ensure_ascii=False)


def test_a_trainer_takes_the_cleaned_file_unchanged(tmp_path):
    from datasets import load_dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    path = made.saved(made.mined("n-tuple"), "jsonl", tmp_path / "in")
    found = check(path, tmp_path / "study")
    judge(found, [3, 4, 20])
    found.write(tmp_path / "out.jsonl")
    dataset = load_dataset(
        "json", data_files=str(tmp_path / "out.jsonl"), split="train", cache_dir=str(tmp_path / "cache")
    )
    model = made._static_model()
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(tmp_path / "model"), max_steps=2, per_device_train_batch_size=4, report_to="none", use_cpu=True
    )
    SentenceTransformerTrainer(model, arguments, dataset, loss=MultipleNegativesRankingLoss(model)).train()
    assert dataset.column_names == ["query", "answer", "negative_1", "negative_2", "negative_3"]


@pytest.mark.parametrize("kind", ["dataset", "frame"])
def test_data_in_memory(kind):
    import blindspot

    dataset = made.mined("n-tuple", True)
    data = dataset if kind == "dataset" else dataset.to_pandas()
    found = blindspot.check(data)
    assert found.facts.rows == len(dataset)
    judge(found, [5])
    cleaned = found.cleaned()
    assert type(cleaned) is type(data)
    if kind == "dataset":
        assert cleaned.features == dataset.features
        assert cleaned.to_list()[:1] == dataset.to_list()[:1]
    else:
        assert cleaned.dtypes.equals(data.dtypes)
    assert len(cleaned) == len(data) + 1  # the new positive has a row of its own


def test_a_dataset_with_splits_is_checked_for_leaks(tmp_path):
    from datasets import Dataset, DatasetDict

    whole = made.mined("triplet")
    leaked = whole.select(range(3)).to_list()
    dev = Dataset.from_list([{**row, "query": row["query"].upper()} for row in leaked], features=whole.features)
    DatasetDict({"train": whole, "validation": dev}).save_to_disk(tmp_path / "both")
    found = check(tmp_path / "both", tmp_path / "study")
    assert found.facts.rows == len(whole)
    [leak] = [finding for finding in found.facts.findings if finding.name == "leaked_questions"]
    assert leak.count == len({row["query"] for row in leaked})
    found.write(tmp_path / "out")
    assert contents(tmp_path / "out") == contents(tmp_path / "both")


def test_our_own_exports_come_in_and_go_back_byte_for_byte(tmp_path, small_demo):
    from blindspot.backend.training_sets.builder import build
    from blindspot.backend.training_sets.exports import export
    from tests.studies import copied

    study = copied(small_demo, tmp_path / "demo")
    run = next(name for name in study.runs() if "train" in name)
    build(study, "set", [run])
    for form in ("sentence-transformers", "tevatron", "dpr", "rocketqa", "parquet"):
        export(study, "set", form, tmp_path / form)
        for path in sorted((tmp_path / form).iterdir()):
            if (
                path.suffix in (".jsonl", ".json", ".tsv", ".parquet")
                and path.name != "manifest.json"
                and path.stat().st_size
            ):
                (tmp_path / form / path.stem).mkdir()
                found, out = unlabelled_copy(path, tmp_path / form / path.stem)
                assert found.facts.rows > 0, path
                assert contents(out) == contents(path), path


# Wrong files


def test_lists_in_csv_are_refused(tmp_path):
    path = made.saved(made.mined("labeled-list"), "csv", tmp_path)
    with pytest.raises(BadInput, match="JSON lines or Parquet"):
        open_training_file(path)


WRONG = {
    "missing columns": ("a.csv", b"id,text\n1,two\n", "no training data of a known form"),
    "mixed types": (
        "a.jsonl",
        b'{"anchor": "a", "positive": "b", "negative": "c"}\n{"anchor": "a", "positive": 7, "negative": "c"}\n',
        r"a.jsonl:2: 'positive' is a number",
    ),
    "a row without a column": (
        "a.jsonl",
        b'{"anchor": "a", "positive": "b", "label": 1}\n{"anchor": "a", "positive": "b"}\n',
        r"a.jsonl:2: ",
    ),
    "a label that is none": ("a.csv", b"anchor,passage,label\na,b,1\na,c,seven\n", r"a.csv:3: 'label' is 'seven'"),
    "ids without a collection": ("a.tsv", b"1\t2\t3\n", "--collection FILE"),
    "binary": ("a.bin", bytes(range(256)) * 8, "a.bin"),
    "a pickle": ("a.pkl", b"\x80\x04\x95\x10\x00", "pickle"),
    "empty": ("a.jsonl", b"", "empty"),
    "an empty array": ("a.json", b"[]", "empty"),
    "not UTF-8": ("a.jsonl", b'{"anchor": "\xff", "positive": "b", "negative": "c"}\n', "UTF-8"),
    "a broken line": ("a.jsonl", b'{"anchor": "a", "positive": "b", "negative": "c"}\n{"anchor"\n', r"a.jsonl:2: "),
    "half a surrogate pair": ("a.jsonl", b'{"anchor": "\\ud800", "positive": "b", "negative": "c"}\n', "UTF-8"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_one_line(tmp_path, name):
    file, content, words = WRONG[name]
    (tmp_path / file).write_bytes(content)
    with pytest.raises(BadInput, match=words) as error:
        check(tmp_path / file, tmp_path / "study")
    assert "\n" not in str(error.value) and file in str(error.value)
    assert not (tmp_path / "study").exists()


TEN_GIGABYTES = {
    "one line.jsonl": (b'{"anchor": "', "a line of more than 32 MB"),
    "second line.jsonl": (b'{"anchor": "a", "positive": "b", "negative": "c"}\n', ":2: a line of more than 32 MB"),
    "table.csv": (b"anchor,positive,negative\n" + b"a,b,c\n" * 1000 + b'"', "csv:1002: "),
    "table.tsv": (b"anchor\tpositive\tnegative\n" + b"a b\tb c\tc d\n" * 1000, "tsv:1002: "),
    "array.json": (b'[{"question": "', "this is not JSON"),
    "table.parquet": (b"PAR1", "cannot be read as Parquet"),
    "table.arrow": (b"ARROW1\0\0", "cannot be read as Arrow"),
    "zeros.bin": (b"", "binary file of no known kind"),
    "model.pkl": (b"\x80\x04\x95", "pickle"),
}
READ_IN_A_PROCESS_OF_ITS_OWN = """
import json, resource, sys, time
from pathlib import Path
import pyarrow.parquet
from blindspot.backend.checking.check import check
from blindspot.db.errors import BadInput

memory = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
folder, before, found = Path(sys.argv[1]), memory(), {}
for path in sorted(folder.iterdir()):
    try:
        check(path, folder / "study")
    except BadInput as error:
        found[path.name] = str(error)
print(json.dumps({"refused": found, "megabytes": memory() - before, "seconds": time.process_time()}))
"""


def test_ten_gigabytes_are_refused_in_seconds_and_little_memory(tmp_path):
    for name, (start, _) in TEN_GIGABYTES.items():
        with open(tmp_path / name, "wb") as file:
            file.write(start)
            file.truncate(10 << 30)  # sparse: zeros to the end
    command = [sys.executable, "-c", READ_IN_A_PROCESS_OF_ITS_OWN, str(tmp_path)]
    said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout)
    assert set(said["refused"]) == set(TEN_GIGABYTES)
    for name, (_, words) in TEN_GIGABYTES.items():
        assert words in said["refused"][name] and "\n" not in said["refused"][name], said["refused"][name]
    assert said["megabytes"] < 300 and said["seconds"] < 20, said
    assert not (tmp_path / "study").exists()


def test_an_id_that_the_collection_lacks_is_named(tmp_path):
    path = made.msmarco(tmp_path / "triples.tsv")
    path.write_text(path.read_text() + "3\t103\t9999\n")
    with pytest.raises(BadInput, match=r"triples.tsv:49: the id '9999' is not in the collection"):
        check(path, tmp_path / "study")


def test_a_file_that_changed_wants_another_study(tmp_path):
    from blindspot.db.errors import Refused

    path = made.tevatron(tmp_path / "train.jsonl")
    check(path)
    assert check(path).facts.rows == 24  # opened again
    path.write_text(path.read_text().splitlines()[0] + "\n")
    with pytest.raises(Refused, match="changed"):
        check(path)


def test_labels_of_people_count(tmp_path):
    found = check(made.tevatron(tmp_path / "train.jsonl"))
    assert peoples_labels(found.checked_study) == {}
    judge(found, [0], "negative")
    assert list(peoples_labels(found.checked_study).values()) == ["negative"]


def test_a_pair_that_people_are_unsure_of_is_not_settled(tmp_path):
    found = check(made.tevatron(tmp_path / "train.jsonl"))
    judge(found, [0], "unsure")
    assert list(peoples_labels(found.checked_study).values()) == ["open"]
