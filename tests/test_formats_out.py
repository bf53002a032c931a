"""Every output format: it reads back the same, and other tools read it and compute the same measures."""

from __future__ import annotations

import ast
import contextlib
import csv
import importlib.util
import io
import json
from dataclasses import replace
from pathlib import Path

import ir_measures
import pytest

from blindspot.backend.core.study import Study
from blindspot.backend.data.exporting import export_passages, export_qrels, export_questions, export_run
from blindspot.backend.data.formats import find_format
from blindspot.backend.data.formats.base import Options
from blindspot.backend.data.importing.importer import import_passages, import_questions
from blindspot.backend.data.importing.qrels import import_qrels
from blindspot.backend.data.importing.runs import import_run
from blindspot.backend.evaluation.report import report
from blindspot.db.errors import Missing, Refused
from blindspot.db.gold import GoldMatches
from blindspot.db.records import Passage, Question
from tests.format_files import PASSAGES, QUESTIONS
from tests.studies import make_study


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A study with a run, graded gold, and texts that are hard to serialise."""
    hard = [
        Passage("7", 'A "title"\twith a tab', 'Quotes " and\ttabs and\nline ends\r\nand ’ and \\ and ""'),
        Passage("8", "T", '"all of it quoted"'),
    ]
    questions = [
        *QUESTIONS,
        Question("14", 'say "x"\tand ’y’', ("a 'b' \"c\"", "d\ne\t\\"), dataset="small", split="test", gold=("7", "8")),
    ]
    study = make_study(tmp_path_factory.mktemp("full") / "study", [*PASSAGES, *hard], questions)
    path = tmp_path_factory.mktemp("in") / "run.trec"
    path.write_text(
        "".join(f"{q.id} Q0 {p} {r} {10 / 3 - r} t\n" for q in questions for r, p in enumerate(("7", "2", "3", "8")))
    )
    import_run(study, path, "mine")
    (path.parent / "q").write_text("11 0 4 3\n")
    import_qrels(study, path.parent / "q")
    return study


def load_pyserini(name):
    """Load a script of Pyserini's evaluation from its file, without importing the slow package."""
    package = Path(importlib.util.find_spec("pyserini").origin).parent
    spec = importlib.util.spec_from_file_location(f"pyserini_{name}", package / "eval" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("format", ["trec", "dpr", "pyserini", "msmarco"])
def test_a_run_comes_back_as_it_was(full, tmp_path, format):
    run = full.run("mine")
    export_run(full, "mine", format, tmp_path / "out")
    import_run(full, tmp_path / "out", "again", format=format, replace=True)
    again = full.run("again")
    assert again.question_ids == run.question_ids and again.hits.ordinals.tolist() == run.hits.ordinals.tolist()
    if format != "msmarco":
        assert again.hits.scores.tolist() == run.hits.scores.tolist()
    assert again.answers().tolist() == run.answers().tolist()


def test_pyserini_measures_the_run_as_we_do(full, tmp_path):
    export_run(full, "mine", "pyserini", tmp_path / "run.json")
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
        load_pyserini("evaluate_dpr_retrieval").evaluate_retrieval(str(tmp_path / "run.json"), [1, 2, 4])
    ours = report(full, ["mine"], ks=[1, 2, 4]).runs[0].success
    assert [line.split("accuracy: ")[1] for line in said.getvalue().splitlines()] == [
        f"{ours[k].value:.4f}" for k in (1, 2, 4)
    ]
    # Without our flags, the script matches the exported texts itself.
    bare = json.loads((tmp_path / "run.json").read_text())
    for entry in bare.values():
        for context in entry["contexts"]:
            del context["has_answer"]
    (tmp_path / "bare.json").write_text(json.dumps(bare))
    again = io.StringIO()
    with contextlib.redirect_stdout(again), contextlib.redirect_stderr(io.StringIO()):
        load_pyserini("evaluate_dpr_retrieval").evaluate_retrieval(str(tmp_path / "bare.json"), [1, 2, 4])
    assert again.getvalue() == said.getvalue()


def test_ir_measures_reads_run_and_qrels_and_measures_the_same(full, tmp_path):
    export_run(full, "mine", "trec", tmp_path / "run.trec")
    export_qrels(full, "trec", path=tmp_path / "qrels")
    qrels = list(ir_measures.read_trec_qrels(str(tmp_path / "qrels")))
    run = list(ir_measures.read_trec_run(str(tmp_path / "run.trec")))
    found = {(q.query_id, q.doc_id, q.relevance) for q in qrels}
    assert found == {("11", "2", 1), ("11", "4", 3), ("12", "3", 1), ("14", "7", 1), ("14", "8", 1)}
    got = ir_measures.calc_aggregate([ir_measures.RR @ 10, ir_measures.R @ 2, ir_measures.R @ 4], qrels, run)
    ours = report(full, ["mine"], relevance="gold", ks=[2, 4]).runs[0]
    for k in (2, 4):
        assert ours.recall[k].value == pytest.approx(got[ir_measures.R @ k])


def test_ms_marcos_own_measure_over_run_and_qrels(full, tmp_path):
    export_run(full, "mine", "msmarco", tmp_path / "run.tsv")
    export_qrels(full, "msmarco", path=tmp_path / "qrels.tsv")
    run = [line.split("\t") for line in (tmp_path / "run.tsv").read_text().splitlines()]
    assert run == [
        [q, p, str(rank)] for q in ("11", "12", "13", "14") for rank, p in enumerate(("7", "2", "3", "8"), 1)
    ]
    qrels = list(ir_measures.read_trec_qrels(str(tmp_path / "qrels.tsv")))
    scored = [ir_measures.ScoredDoc(q, p, -int(rank)) for q, p, rank in run]
    # ir_measures includes MS MARCO's official script.
    mrr = ir_measures.msmarco.calc_aggregate([ir_measures.RR @ 10], qrels, scored)[ir_measures.RR @ 10]
    assert mrr == pytest.approx((1 / 2 + 1 / 3 + 1) / 3)
    assert report(full, ["mine"], relevance="gold", ks=[1]).runs[0].mrr is None  # the run keeps 4 hits


@pytest.mark.parametrize("format", ["trec", "beir", "msmarco"])
def test_qrels_come_back_as_they_were(full, tmp_path, format):
    written = export_qrels(full, format, path=tmp_path / "out")
    bare = make_study(tmp_path / "bare", full.corpus.scan(), [replace(q, gold=()) for q in full.questions.all()])
    assert import_qrels(bare, tmp_path / "out", format=format).rows == written.rows == 5
    assert [set(q.gold) for q in bare.questions.all()] == [set(q.gold) for q in full.questions.all()]
    assert GoldMatches(bare.labels_path).grades()["11", "4"] == 3
    export_qrels(bare, format, path=tmp_path / "again")
    assert sorted((tmp_path / "again").read_text().splitlines()) == sorted((tmp_path / "out").read_text().splitlines())


def test_our_own_questions_come_back_whole(full, tmp_path):
    export_questions(full, "question-jsonl", path=tmp_path / "q.jsonl")
    bare = make_study(tmp_path / "bare", full.corpus.scan())
    import_questions(bare, tmp_path / "q.jsonl")
    assert bare.questions.all() == full.questions.all()


def test_dpr_csv_comes_back_and_is_read_as_dpr_reads_it(full, tmp_path):
    written = export_questions(full, "dpr-csv", path=tmp_path / "q.csv")
    expected = [(q.text.replace("\t", " ").replace("’", "'"), q.answers) for q in full.questions.all()]
    found = find_format(tmp_path / "q.csv", "questions").read(tmp_path / "q.csv", Options(split="test"))
    assert [(item.question.text, item.question.answers) for item in found] == expected
    with open(tmp_path / "q.csv", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t"))
    assert [(text.replace("’", "'"), tuple(ast.literal_eval(answers))) for text, answers in rows] == expected
    assert written.notes == (
        "1 question contained tabs or line ends, which became spaces",
        "The format cannot store grades; 'blindspot export qrels' writes them.",
    )


@pytest.mark.parametrize("format", ["beir", "msmarco"])
def test_questions_come_back_in_forms_without_answers(full, tmp_path, format):
    export_questions(full, format, path=tmp_path / "q")
    found = find_format(tmp_path / "q", "questions", format).read(tmp_path / "q", Options(split="dev"))
    tabs = str.maketrans("\t", " ") if format == "msmarco" else {}
    assert [(item.question.id, item.question.text) for item in found] == [
        (q.id, q.text.translate(tabs)) for q in full.questions.all()
    ]


@pytest.mark.parametrize("format", ["psgs", "beir", "msmarco"])
def test_passages_come_back_as_they_were(full, tmp_path, format):
    written = export_passages(full, format, tmp_path / "out")
    again = Study.create(tmp_path / "again")
    import_passages(again, tmp_path / "out", format=format)
    if format == "msmarco":
        spaces = str.maketrans("\t\r\n", "   ")
        assert [(p.id, p.text) for p in again.corpus.scan()] == [
            (p.id, p.text.translate(spaces)) for p in full.corpus.scan()
        ]
        assert "6 titles were left out" in written.notes[0] and "1 text contained tabs" in written.notes[1]
    else:
        assert again.corpus.digest == full.corpus.digest


def test_datasets_reads_what_is_written(full, tmp_path):
    datasets = pytest.importorskip("datasets")
    export_passages(full, "beir", tmp_path / "corpus.jsonl")
    export_passages(full, "psgs", tmp_path / "psgs.tsv")
    export_questions(full, "beir", path=tmp_path / "queries.jsonl")
    export_qrels(full, "beir", path=tmp_path / "test.tsv")

    def load(kind, name, **more):
        return datasets.load_dataset(
            kind, data_files=str(tmp_path / name), split="train", cache_dir=str(tmp_path / "cache"), **more
        )

    passages = [(p.id, p.title, p.text) for p in full.corpus.scan()]
    assert [(row["_id"], row["title"], row["text"]) for row in load("json", "corpus.jsonl")] == passages
    columns = datasets.Features({name: datasets.Value("string") for name in ("id", "text", "title")})
    read = load("csv", "psgs.tsv", sep="\t", features=columns, keep_default_na=False)
    assert [(row["id"], row["title"], row["text"]) for row in read] == passages
    assert [(row["_id"], row["text"]) for row in load("json", "queries.jsonl")] == [
        (q.id, q.text) for q in full.questions.all()
    ]
    assert {(str(row["query-id"]), str(row["corpus-id"])) for row in load("csv", "test.tsv", sep="\t")} == {
        (q.id, p) for q in full.questions.all() for p in q.gold
    }


def test_exports_have_safe_names_and_say_what_they_cannot_do(full, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert export_questions(full, "beir", "small/dev").path == Path("questions-small-dev.jsonl")
    assert export_run(full, "mine", "trec").path == Path("mine.trec")
    for call, error, says in (
        (lambda: export_run(full, "mine", "xml"), Refused, "one of dpr, msmarco, pyserini, trec"),
        (lambda: export_passages(full, "squad"), Refused, "beir, msmarco"),
        (lambda: export_questions(full, "beir", "../x"), Missing, "no questions"),
        (lambda: export_run(full, "../x", "trec"), Refused, "run name"),
        (lambda: export_passages(full, "beir", tmp_path / "absent" / "x"), Refused, "cannot be written"),
    ):
        with pytest.raises(error, match=says):
            call()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine.trec", "questions-small-dev.jsonl"]
