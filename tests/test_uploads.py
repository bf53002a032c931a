"""Files that come by the browser: what each is recognised as, its first rows, and its import."""

from __future__ import annotations

import io
import json

import pytest

from blindspot.backend.core import jobs
from blindspot.backend.core.study import Study
from blindspot.backend.data.importing.uploads import COLUMNS, IMPORTS, possible_readings, store_upload, uploaded_path
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.people import People
from tests.app_pages import Page
from tests.studies import births, make_study, people

QUESTION = {"question": "Where was Ann born?", "answers": ["Oslo"]}
DPR = [{**QUESTION, "ctxs": [{"id": "p0", "title": "", "text": "x", "score": "2.5", "has_answer": False}]}]
TREC = "q1 Q0 p0 1 2.5 mine\nq1 Q0 p1 2 1.5 mine\n"
FILES = {
    "run.json": (json.dumps(DPR), "runs"),
    "run.trec": (TREC, "runs"),
    "asked.jsonl": (json.dumps({**QUESTION, "id": "q1", "set": "dev"}) + "\n", "questions"),
    "psgs.tsv": ("id\ttext\ttitle\np0\tAnn was born in Oslo.\tAnn\n", "passages"),
    "judged.qrels": ("q1 0 p0 1\n", "qrels"),
}


def kept(study: Study, name: str, content: str | bytes):
    raw = content.encode() if isinstance(content, str) else content
    return store_upload(study, name, io.BytesIO(raw))


def test_each_file_is_recognised_and_shows_its_first_rows(tmp_path):
    study = Study.create(tmp_path / "s")
    for name, (content, kind) in FILES.items():
        first = possible_readings(kept(study, name, content))[0]
        assert (first.kind, first.fault) == (kind, "") and kind in IMPORTS, name
        assert {len(row) for row in first.rows} == {len(COLUMNS[kind])}
        assert {"p0", "q1", QUESTION["question"]} & {cell for row in first.rows for cell in row}


def test_parquet_tables_of_questions_and_of_a_run(tmp_path):
    pandas = pytest.importorskip("pandas")
    study = Study.create(tmp_path / "s")
    asked = kept(study, "asked.parquet", pandas.DataFrame([{"id": "q1", **QUESTION}]).to_parquet())
    assert "there is no 'split'" in possible_readings(asked)[0].fault
    assert possible_readings(asked, "dev")[0].rows == (("q1", "Where was Ann born?", "Oslo", "dev"),)
    hits = pandas.DataFrame([{"qid": "q1", "docid": "p0", "score": 2.5, "rank": 1}])
    (run,) = possible_readings(kept(study, "mine.parquet", hits.to_parquet()))
    assert (run.kind, run.rows, run.fault) == ("runs", (("q1", "1", "p0"),), "")


def test_files_that_cannot_be_read_say_why_and_lead_nowhere_else(tmp_path):
    study = Study.create(tmp_path / "s")
    with pytest.raises(Refused, match="cannot be read"):
        kept(study, "model.pkl", b"x")
    with pytest.raises(BadInput, match="empty"):
        possible_readings(kept(study, "none.jsonl", ""))
    with pytest.raises(Missing, match="not among the uploaded files"):
        uploaded_path(study, "../study.toml")
    assert {path.parent.name for path in tmp_path.rglob("none.*")} == {"uploads"}


def test_a_dropped_run_becomes_a_run_of_the_study_for_those_who_may_import(tmp_path):
    passages = people(6)
    study = make_study(tmp_path / "s", passages, births(passages))
    question = births(passages)[0].id
    path = kept(study, "mine.trec", f"{question} Q0 p1 1 2.5 mine\n{question} Q0 p0 2 1.5 mine\n")
    first = possible_readings(path)[0]
    jobs.run(IMPORTS[first.kind], study, str(path), name="mine", format=first.format)
    assert study.run("mine").question_ids == [question]
    assert "mine" in Page(study.folder).text
    # Only those who may import are offered the field.
    for name, role in (("lea", "lead"), ("ann", "annotator")):
        People(study.labels_path).add(name, role)
    assert Page(study.folder, "", "lea").app.get("file_uploader")
    assert not Page(study.folder, "", "ann").app.get("file_uploader")
