"""Graded judgements through every route into a study and out of it, measured as ir_measures measures them.

The judgements hold grades from -1 to 3, questions with none above 0, and questions that nobody judged.
"""

from __future__ import annotations

import json

import ir_measures
import numpy as np
import pytest
from typer.testing import CliRunner

from blindspot.app.cli import app
from blindspot.backend.core.runs import write_run
from blindspot.backend.core.study import Study
from blindspot.backend.core.summary import summary
from blindspot.backend.data.exporting import export_qrels, export_questions
from blindspot.backend.data.importing.importer import import_passages, import_questions
from blindspot.backend.data.importing.qrels import import_qrels
from blindspot.backend.evaluation.measures import MEASURES
from blindspot.backend.evaluation.relevance import relevant
from blindspot.backend.evaluation.report import report
from blindspot.db.errors import BadInput
from blindspot.db.gold import GoldMatches
from blindspot.db.records import Hits

DEPTH = 10
RNG = np.random.default_rng(11)
PASSAGES = [f"p{i}" for i in range(40)]
QUESTIONS = {f"q{i}": f"Which town is number {i}?" for i in range(12)}
JUDGED = [id for id in QUESTIONS if id not in ("q3", "q8")]
QRELS = {
    (question, str(passage)): int(grade)
    for question in JUDGED
    for passage, grade in zip(RNG.choice(PASSAGES, 8, replace=False), RNG.choice([-1, 0, 0, 1, 2, 3], 8), strict=True)
}
for pair in QRELS:
    if pair[0] in ("q5", "q9"):
        QRELS[pair] = 0
LISTS = {question: [str(each) for each in RNG.choice(PASSAGES, DEPTH, replace=False)] for question in QUESTIONS}


def lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def corpus(folder):
    return lines(folder / "corpus.jsonl", [{"_id": id, "title": id, "text": f"The text of {id}."} for id in PASSAGES])


def queries(folder):
    return lines(folder / "queries.jsonl", [{"_id": id, "text": text} for id, text in QUESTIONS.items()])


def beir_qrels(path):
    return lines(path, ["query-id\tcorpus-id\tscore", *(f"{q}\t{p}\t{grade}" for (q, p), grade in QRELS.items())])


def json_qrels(path):
    return lines(path, [{"query-id": q, "corpus-id": p, "score": grade} for (q, p), grade in QRELS.items()])


def new(folder):
    study = Study.create(folder / "study")
    import_passages(study, corpus(folder / "source"))
    return study


def by_folder(folder, qrels=beir_qrels, name="test.tsv"):
    study = Study.create(folder / "study")
    source = corpus(folder / "source").parent
    queries(source)
    qrels(source / "qrels" / name)
    import_passages(study, source)
    import_questions(study, source)
    return study


def by_qrels(write, name):
    def route(folder):
        study = new(folder)
        import_questions(study, queries(folder), split="test")
        import_qrels(study, write(folder / name))
        return study

    return route


def trec_qrels(path, separator=" "):
    return lines(path, [separator.join((q, "0", p, str(grade))) for (q, p), grade in QRELS.items()])


def by_json_lines(folder):
    grades = {id: {p: grade for (q, p), grade in QRELS.items() if q == id} for id in QUESTIONS}
    rows = [{"id": id, "question": text, "split": "test", "grades": grades[id]} for id, text in QUESTIONS.items()]
    study = new(folder)
    import_questions(study, lines(folder / "questions.jsonl", rows))
    return study


def by_msmarco(folder):
    study = Study.create(folder / "study")
    passages = lines(folder / "collection.tsv", [f"{id}\tThe text of {id}." for id in PASSAGES])
    import_passages(study, passages, format="msmarco")
    asked = lines(folder / "queries.eval.tsv", [f"{id}\t{text}" for id, text in QUESTIONS.items()])
    import_questions(study, asked, "msmarco")
    import_qrels(study, trec_qrels(folder / "qrels.eval.tsv", "\t"))
    return study


def by_ir_datasets(folder):
    ir_datasets = pytest.importorskip("ir_datasets")
    from ir_datasets.datasets.base import Dataset
    from ir_datasets.formats import TrecQrels, TsvDocs, TsvQueries
    from ir_datasets.util import LocalDownload

    def local(path):
        return LocalDownload(path, mkdir=False)

    docs = lines(folder / "docs.tsv", [f"{id}\tThe text of {id}." for id in PASSAGES])
    asked = lines(folder / "queries.tsv", [f"{id}\t{text}" for id, text in QUESTIONS.items()])
    grades = TrecQrels(local(trec_qrels(folder / "qrels")), {grade: str(grade) for grade in range(-1, 4)})
    name = f"graded-{folder.name}/test"
    ir_datasets.registry.register(name, Dataset(TsvDocs(local(docs)), TsvQueries(local(asked)), grades))
    study = Study.create(folder / "study")
    done = CliRunner().invoke(app, ["import", "questions", f"ir:{name}", "--study", str(study.folder)])
    assert done.exit_code == 0, done.output
    return Study.open(study.folder)


def by_pushed_parquet(folder, place="qrels"):
    """The layout in which MTEB pushes a task: `DatasetDict.push_to_hub` of each part under its name."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    parts = {
        "corpus": [{"id": id, "title": "", "text": f"The text of {id}."} for id in PASSAGES],
        "queries": [{"id": id, "text": text} for id, text in QUESTIONS.items()],
        place: [{"query-id": q, "corpus-id": p, "score": grade} for (q, p), grade in QRELS.items()],
    }
    for name, rows in parts.items():
        (folder / "pushed" / name).mkdir(parents=True)
        parquet.write_table(pa.Table.from_pylist(rows), folder / "pushed" / name / "test-00000-of-00001.parquet")
    study = Study.create(folder / "study")
    import_passages(study, folder / "pushed")
    import_questions(study, folder / "pushed")
    return study


def by_exported_questions(folder):
    export_questions(by_folder(folder / "first"), "question-jsonl", path=folder / "out.jsonl")
    study = new(folder)
    import_questions(study, folder / "out.jsonl")
    return study


def by_exported_qrels(format):
    def route(folder):
        export_qrels(by_json_lines(folder / "first"), format, path=folder / "out")
        study = new(folder)
        import_questions(study, queries(folder), split="test")
        import_qrels(study, folder / "out", format=format)
        return study

    return route


ROUTES = {
    "BEIR": by_folder,
    "MTEB": lambda folder: by_folder(folder, json_qrels, "test.jsonl"),
    "MTEB's Parquet": by_pushed_parquet,
    "MTEB's Parquet in data": lambda folder: by_pushed_parquet(folder, "data"),
    "ir_datasets": by_ir_datasets,
    "TREC qrels": by_qrels(trec_qrels, "test.qrels"),
    "BEIR qrels": by_qrels(beir_qrels, "test.tsv"),
    "JSON lines of qrels": by_qrels(json_qrels, "test.jsonl"),
    "MS MARCO": by_msmarco,
    "JSON lines": by_json_lines,
    "exported questions": by_exported_questions,
    "exported TREC qrels": by_exported_qrels("trec"),
    "exported BEIR qrels": by_exported_qrels("beir"),
    "exported MS MARCO qrels": by_exported_qrels("msmarco"),
}


@pytest.fixture(scope="module", params=ROUTES)
def study(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("route")
    made = ROUTES[request.param](folder)
    known = made.corpus.ordinals(PASSAGES)
    rows = np.array([[known[p] for p in LISTS[question]] for question in QUESTIONS], dtype=np.int32)
    scores = np.broadcast_to(-np.arange(DEPTH, dtype=np.float32), rows.shape)
    asked = {q.id for q in made.questions.all()}
    keep = [i for i, id in enumerate(QUESTIONS) if id in asked]
    ids = [id for id in QUESTIONS if id in asked]
    write_run(made, "run", ids, Hits(rows[keep], scores[keep].copy()), {"retriever": "imported"})
    return made


def test_every_grade_arrives(study):
    assert GoldMatches(study.labels_path).grades() == QRELS
    gold = {(q.id, p) for q in study.questions.all() for p in q.gold}
    assert gold == {pair for pair, grade in QRELS.items() if grade > 0}
    assert summary(study)["gold_found"] == {"qrels": len(gold)}


def test_ndcg_is_that_of_ir_measures(study):
    found = relevant(study, study.run("run"), "gold")
    values = dict(zip([q.id for q in found.questions], MEASURES.get("ndcg").values_of(found, 3), strict=True))
    run = [ir_measures.ScoredDoc(q, p, float(-rank)) for q, ids in LISTS.items() for rank, p in enumerate(ids)]
    rows = [ir_measures.Qrel(q, p, grade) for (q, p), grade in QRELS.items()]
    theirs = {each.query_id: each.value for each in ir_measures.iter_calc([ir_measures.nDCG @ 3], rows, run)}
    assert set(values) == set(JUDGED) and theirs["q5"] == theirs["q9"] == 0
    assert values == pytest.approx(theirs)
    mean = report(study, ["run"], relevance="gold", ks=[3], measures=["ndcg"]).runs[0]
    assert mean.measures["ndcg"].at[3].value == pytest.approx(np.mean(list(theirs.values())))
    assert any(each.startswith("2 questions were judged without") for each in mean.notes)


def test_a_grade_that_is_no_number_is_named(tmp_path):
    wrong = {"query-id": "q1", "corpus-id": "p1", "score": "much"}
    with pytest.raises(BadInput, match=r"test.jsonl:1: .*'much'"):
        by_folder(tmp_path, lambda path: lines(path, [wrong]), "test.jsonl")


def test_what_goes_out_is_what_came_in(study, tmp_path):
    export_qrels(study, "trec", path=tmp_path / "out.qrels")
    out = {(q.query_id, q.doc_id): q.relevance for q in ir_measures.read_trec_qrels(str(tmp_path / "out.qrels"))}
    assert out == QRELS
