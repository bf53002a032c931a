"""Every kind of job runs once through `submit` on a tiny study: it is recorded, its function is found again, its result
is stored.
"""

import dataclasses
import io
import json
import os
import signal
import sys
import time

import pytest

from blindspot.backend.checking import jobs as checking
from blindspot.backend.core import consent, jobs
from blindspot.backend.core.settings import add_encoder
from blindspot.backend.core.study import Study
from blindspot.backend.data.importing import importer, qrels, runs
from blindspot.backend.data.importing.uploads import store_upload
from blindspot.backend.experiments.running import run_experiment
from blindspot.backend.judges.feature_judge import judge_run, learn_judge
from blindspot.backend.judges.imported import import_judgements
from blindspot.backend.judges.judge import JUDGES
from blindspot.backend.judges.llm.judge import add_llm_judge
from blindspot.backend.judges.llm.judging import judge_with_llm
from blindspot.backend.judges.pair_judge import judge_pairs
from blindspot.backend.judging.batches import make_batch
from blindspot.backend.maps.making import make
from blindspot.backend.reader.reading import read
from blindspot.backend.reader.training import train_reader
from blindspot.backend.recipes.rocketqa import train_rocketqa
from blindspot.backend.retrieval import approximate, bm25, dense, milvus
from blindspot.backend.retrieval.opened import open_index
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.backend.training.adapter import train_adapter
from blindspot.backend.training.cross_encoder import train_cross_encoder
from blindspot.backend.training.dual_encoder import train_dual_encoder, try_model
from blindspot.backend.training.ready_cross_encoder import add_cross_encoder
from blindspot.backend.training.scoring import score_run
from blindspot.backend.training_sets.builder import build
from blindspot.backend.training_sets.judged_batches import make_batch_by_judge
from blindspot.db.people import People
from tests.installed import installed
from tests.job_kinds import every_kind
from tests.llm_server import ChatServer
from tests.readers import QUICK as QUICK_READER
from tests.readers import tiny_reader
from tests.studies import births, people, tiny_bert

QUICK = {
    "steps": 2,
    "batch": 4,
    "evaluate_every": 2,
    "held_out": 4,
    "pool": 20,
    "question_tokens": 24,
    "passage_tokens": 48,
    "learning_rate": 1e-3,
}
CROSS = {
    "steps": 2,
    "batch": 4,
    "negatives": 2,
    "evaluate_every": 2,
    "held_out": 6,
    "tokens": 64,
    "learning_rate": 1e-3,
}
IN_THE_DEMO = {"demo", "simulate annotators"}
"""They need the demo: tests/test_demo.py submits them."""
RECIPE = {"depth": 20, "dual": {**QUICK, "mini_batch": None}, "cross": {**CROSS, "pairs": 16}}


def files(folder):
    """Write passages, questions, frequencies, qrels and a run; return two training questions."""
    passages = people()
    train = [
        dataclasses.replace(question, relation="P20" if number % 2 else "P19")
        for number, question in enumerate(births(passages, "train"))
    ]
    dev = [dataclasses.replace(question, id=f"dev.{question.id}", split="dev") for question in train[28:]]
    rows = ["id\ttext\ttitle", *(f"{p.id}\t{p.text}\t{p.title}" for p in passages)]
    (folder / "passages.tsv").write_text("\n".join(rows) + "\n")
    asked = [
        {
            **{key: getattr(q, key) for key in ("id", "relation", "subject", "dataset", "split")},
            "question": q.text,
            "answers": list(q.answers),
            "gold": list(q.gold),
        }
        for q in (*train[:28], *dev)
    ]
    (folder / "questions.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in asked))
    (folder / "frequencies.tsv").write_text("entity\tcount\n" + "".join(f"{q.subject}\t7\n" for q in train))
    (folder / "qrels.txt").write_text("".join(f"{q.id} 0 {q.gold[0]} 1\n" for q in dev))
    (folder / "run.trec").write_text("".join(f"{q.id} Q0 {q.gold[0]} 1 9.5 other\n" for q in dev))
    return train[:2]


@pytest.fixture(scope="module", autouse=True)
def registered():
    return set(every_kind())


@pytest.fixture(params=["in this process", pytest.param("in processes of their own", marks=pytest.mark.slow)])
def where(request, monkeypatch):
    """Loading torch 26 times takes minutes. The test therefore runs the jobs in this process, from the same record."""

    def start_here(study, id, lock):
        before = signal.getsignal(signal.SIGTERM)
        try:
            jobs.main(str(study.folder), id, str(os.dup(lock.fileno())))
        finally:
            signal.signal(signal.SIGTERM, before)

    if request.param == "in this process":
        monkeypatch.setattr(jobs, "_start_process", start_here)
    return request.param


@pytest.fixture
def installed_judge(tmp_path, monkeypatch):
    """A package with a judge beside Blindspot, for this process and for those that it starts."""
    site = tmp_path / "site"
    site.mkdir()
    code = (
        "from blindspot.backend.judges.pair_judge import PairJudge\n"
        "class Half(PairJudge):\n"
        "    name, title, help = 'half', 'half', 'is never sure'\n"
        "    def probabilities(self, questions, passages):\n"
        "        return [0.5 for _ in passages]\n"
    )
    installed(site, "half_judge", "blindspot.judges", {"half": "half_judge:Half"}, code)
    JUDGES.all()
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep))
    monkeypatch.setattr(JUDGES, "_entries", dict(JUDGES._entries))
    monkeypatch.setattr(JUDGES, "_loaded", False)
    yield
    sys.modules.pop("half_judge", None)


def test_every_kind_of_job(tmp_path, registered, installed_judge, where):
    pytest.importorskip("accelerate", reason="training needs accelerate")
    pytest.importorskip("milvus_lite", reason="milvus-lite is not installed: 'pip install -r requirements-dev.txt'")
    study, results = Study.create(tmp_path / "s"), {}
    files(tmp_path)
    tiny_bert(study.folder / "start")
    tiny_reader(study.folder / "reader")
    add_encoder(study.settings_path, "tiny", {"model": str(study.folder / "start"), "pooling": "cls", "max_tokens": 64})
    People(study.labels_path).add("ann", "lead")

    def submit(function, *arguments, of=study, **named):
        id = jobs.submit(function, of, *arguments, **named)
        deadline = time.monotonic() + 300
        while (job := jobs.status(of, id)).unfinished:
            assert time.monotonic() < deadline, job
            time.sleep(0.1)
        assert (job.state, job.error) == ("done", None), (job.kind, job.error, jobs.log(of, id))
        results[job.kind] = job.result
        return job.result

    file = {name: str(tmp_path / name) for name in os.listdir(tmp_path)}
    assert submit(importer.import_passages, file["passages.tsv"])["rows"] == 60
    assert submit(importer.import_questions, file["questions.jsonl"])["rows"] == 40
    submit(importer.import_frequencies, file["frequencies.tsv"])
    submit(importer.count_frequencies)
    submit(qrels.import_qrels, file["qrels.txt"])
    submit(runs.import_run, file["run.trec"], "other")
    assert submit(bm25.build_index, threads=1)["passages"] == 60
    assert submit(dense.build_index, "tiny", device="cpu")["passages"] == 60
    submit(approximate.build, "tiny", "hnsw", {}, device="cpu")
    submit(milvus.build, "tiny", str(tmp_path / "milvus.db"))
    assert submit(open_index, "lucene", str(study.path("indexes", "bm25")), "lucene")["matched"] == 60
    assert submit(retrieve, "bm25", k=10, split="train", name="mined") == {"name": "mined"}
    submit(retrieve, "bm25", k=10, split="dev", name="dev")
    submit(retrieve, "dense", encoder="tiny", k=10, split="dev", name="dense", device="cpu")
    submit(make, name="map", encoder="tiny", run="dev", passages=["gold", "random"], neighbours=5, cluster_count=2)
    assert submit(make_batch, "batch", ["mined"], size=5, by="ann")["name"] == "batch"
    assert submit(build, "clean", ["mined"]) == {"name": "clean"}
    submit(train_dual_encoder, "model", "clean", QUICK, start="tiny", device="cpu")
    assert submit(try_model, "model", "dev", k=10, device="cpu") == "model-dev", "a string was shown as failed"
    submit(train_adapter, "adapted", "clean", "tiny", {"steps": 4, "batch": 8})
    submit(train_cross_encoder, "judge", "clean", CROSS, start=str(study.folder / "start"), device="cpu")
    submit(score_run, "judge", "mined", 2, device="cpu")
    submit(add_cross_encoder, "ready", str(study.path("models", "judge")), device="cpu")
    submit(learn_judge, "features", "mined")
    submit(judge_run, "features", "mined")
    assert submit(judge_pairs, "half", "mined", 2)["pairs"] == 2 * results["judge pairs"]["questions"]
    assert 0 < submit(judge_pairs, "half", "mined", 3)["pairs"] == results["judge pairs"]["questions"], "the third rank"
    assert submit(import_judgements, "tool", file["qrels.txt"])["pairs"] == 12
    with ChatServer(lambda question, passage: 0) as server:
        consent.give_consent(study, server.url)
        add_llm_judge(study, "llm", server.url, "m")
        assert submit(judge_with_llm, "llm", "mined", 2, 4)["pairs"] == 4
    assert submit(make_batch_by_judge, "judged", ["mined"], "features", "clean", size=3, by="ann")["name"] == "judged"
    submit(train_reader, "reader", "mined", QUICK_READER, start=str(study.folder / "reader"), device="cpu")
    submit(read, "dev", "reader", device="cpu")
    submit(train_rocketqa, "recipe", "mined", "tiny", RECIPE, device="cpu")
    submit(run_experiment, "tune-bm25", {"ks": [5], "depth": 10, "small": True})
    mined = "".join(
        f'{{"query": "where is {n}", "answer": "in town {n}", "negative": "place {n}"}}\n' for n in range(9)
    )
    checked = Study.create(tmp_path / "checked")
    path = store_upload(checked, "mined.jsonl", io.BytesIO(mined.encode())).name
    assert submit(checking.import_training_file, path, of=checked) == {"rows": 9, "negatives": 9}
    assert submit(checking.draw_pairs, 5, of=checked) == {"pairs": 9}, "all pairs were drawn when the check was made"
    assert submit(checking.judge_drawn, "half", of=checked) == {"judge": "half", "pairs": 9}
    assert submit(checking.write_cleaned, of=checked)["rows"] == 9
    assert set(results) == registered - IN_THE_DEMO
    assert len(registered) >= 26 and "torch" in sys.modules
