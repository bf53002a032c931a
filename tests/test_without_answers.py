"""MS MARCO-style data: questions without answers and relevance from qrels, in every command."""

from __future__ import annotations

import json
import sys

import ir_measures
import pytest

from blindspot.app import cli
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.relevance import relevant
from tests.app_pages import Page
from tests.studies import people, tiny_bert


@pytest.fixture
def blindspot(capsys, monkeypatch):
    def run(*arguments, code=0):
        monkeypatch.setattr(sys, "argv", ["blindspot", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        out, err = capsys.readouterr()
        assert (end.value.code or 0) == code, err
        return out if not code else err

    return run


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """collection.tsv, queries.dev.tsv and qrels.dev.tsv of a small world: 1,100 passages, 30 questions, up to two
    relevant each."""
    folder, passages = tmp_path_factory.mktemp("msmarco"), people(1100)
    (folder / "collection.tsv").write_text("".join(f"{i}\t{p.text}\n" for i, p in enumerate(passages)))
    asked = [i for i, p in enumerate(passages) if " born in " in p.text][:30]
    (folder / "queries.dev.tsv").write_text("".join(f"{1000 + i}\twhere was {passages[i].title} born\n" for i in asked))
    (folder / "qrels.dev.tsv").write_text(
        "".join(f"{1000 + i}\t0\t{i}\t1\n" + (f"{1000 + i}\t0\t{i + 1}\t1\n" if i % 2 else "") for i in asked)
    )
    tiny_bert(folder / "tiny")
    return folder


def test_every_command(blindspot, files, tmp_path, monkeypatch):
    monkeypatch.setenv("BLINDSPOT_STUDY", str(tmp_path / "s"))
    monkeypatch.chdir(tmp_path)
    blindspot("new", tmp_path / "s")
    assert "1,100 passages" in blindspot("import", "passages", files / "collection.tsv")
    assert "30 questions" in blindspot("import", "questions", files / "queries.dev.tsv")
    assert "30 questions have more gold" in blindspot("import", "qrels", files / "qrels.dev.tsv")
    assert "was imported before" in blindspot("import", "qrels", files / "qrels.dev.tsv")
    assert "every question with a subject has a frequency" in blindspot("import", "frequencies", "--count")
    blindspot("encoder", "add", "tiny", "--model", files / "tiny", "--pooling", "cls", "--max-tokens", 64)
    blindspot("index", "bm25")
    blindspot("index", "dense", "--encoder", "tiny")
    for kind in ("bm25", "dense", "hybrid"):
        blindspot("retrieve", "--with", kind, "--encoder", "tiny", "--split", "dev", "--k", 1000)
    asked = {"id": "t1", "question": "which passage is first", "split": "test"}
    (tmp_path / "test.jsonl").write_text(json.dumps(asked) + "\n")
    assert "1 question" in blindspot("import", "questions", tmp_path / "test.jsonl")
    assert "Weight" in blindspot(
        "retrieve",
        "--with",
        "hybrid",
        "--encoder",
        "tiny",
        "--fusion",
        "weighted",
        "--tune",
        "--split",
        "test",
        "--k",
        20,
        "--name",
        "tuned",
    )
    counts = next(c for c in json.loads(blindspot("status", "--json"))["questions"] if c["split"] == "dev")
    assert (counts["questions"], counts["with_gold"], counts["with_answers"]) == (30, 30, 0)

    said = json.loads(blindspot("report", "--json", "--k", "10,50,1000", "--run", "bm25-dev", "--by", "split"))["runs"][
        "bm25-dev"
    ]
    assert said["relevance"] == "gold" and set(said["recall"]) == {"10", "50", "1000"}
    for form in ("trec", "msmarco"):
        blindspot("export", "qrels", "--format", form)
    blindspot("export", "run", "bm25-dev", "--format", "trec")
    measures = [ir_measures.RR @ 10, ir_measures.R @ 50, ir_measures.R @ 1000]
    got = ir_measures.calc_aggregate(
        measures, list(ir_measures.read_trec_qrels("qrels.qrels")), list(ir_measures.read_trec_run("bm25-dev.trec"))
    )
    assert said["mrr@10"]["value"] == pytest.approx(got[measures[0]]) and 0 < said["mrr@10"]["value"] <= 1
    assert said["recall"]["50"]["value"] == pytest.approx(got[measures[1]]) and said["recall"]["1000"][
        "value"
    ] == pytest.approx(got[measures[2]])
    assert "MRR@10" in blindspot("report", "--k", "10,50,1000") and "recall,50" in blindspot(
        "report", "--csv", "--k", "50"
    )
    assert "R@50" in blindspot("report", "--latex", "--k", "50,1000").replace("{", "").replace("}", "")
    assert "--k needs whole numbers" in blindspot("report", "--k", "10,x", code=2)
    assert "k must be at least 1" in blindspot("report", "--k", "0", code=1)

    for form in ("dpr", "pyserini", "msmarco", "trec"):
        assert "Wrote" in blindspot("export", "run", "bm25-dev", "--format", form, "--out", f"out.{form}")
        assert "Imported 30" in blindspot(
            "import", "run", f"out.{form}", "--name", f"again-{form}", "--split", "dev", "--format", form
        )
    for form in ("msmarco", "beir", "question-jsonl", "dpr-csv"):
        blindspot("export", "questions", "--format", form)
    blindspot("export", "passages", "--format", "msmarco")
    assert (tmp_path / "passages.tsv").read_bytes() == (files / "collection.tsv").read_bytes()
    again = json.loads(blindspot("report", "--json", "--k", "10,50,1000"))["runs"]
    assert again["again-trec"]["mrr@10"] == again["bm25-dev"]["mrr@10"] == again["again-dpr"]["mrr@10"]

    study = Study(tmp_path / "s")
    measured = relevant(study, study.run("bm25-dev"))
    assert measured.kind == "gold" and len(measured.questions) == 30
    assert study.run("tuned").manifest["tuned"]["rule"] == "gold"

    assert "bm25-dev" in Page(study.folder).text
    compared = Page(study.folder, "compare", a="bm25-dev", b="tiny-dev").text.replace("'", "’")
    assert "A passage is relevant if it is a gold passage of the question." in compared
    asked = study.questions.all()[0]
    assert asked.text in Page(study.folder, "question", question=asked.id, a="bm25-dev", b="tiny-dev").text
