"""Figures equal MTEB's own evaluator, tasks load in MTEB and BEIR's form, and own passages are left out where asked."""

from __future__ import annotations

import importlib.util
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from blindspot.app.cli import app
from blindspot.backend.core.own_passages import without_own
from blindspot.backend.core.runs import write_run
from blindspot.backend.data.importing.importer import import_passages, import_questions
from blindspot.backend.data.importing.runs import import_run
from blindspot.backend.data.task_folder import export_task
from blindspot.backend.evaluation.results_files import NAMES, export_results, mean_measures, read_mteb
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.records import Hits, Passage, Question
from tests.studies import make_study

DEPTH = 20


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A tiny study whose questions have one to three relevant passages with grades, and a run of random order. Every
    third question asks with a passage's own id.
    """
    folder = tmp_path_factory.mktemp("mteb")
    rng = np.random.default_rng(0)
    with open(folder / "corpus.jsonl", "w") as file:
        for number in range(40):
            file.write(json.dumps({"_id": f"d{number}", "title": f"T{number}", "text": f"text {number}"}) + "\n")
    (folder / "qrels").mkdir()
    ids = [f"d{number}" if number % 3 == 0 else f"q{number}" for number in range(15)]
    with open(folder / "queries.jsonl", "w") as file, open(folder / "qrels" / "test.tsv", "w") as qrels:
        qrels.write("query-id\tcorpus-id\tscore\n")
        for id in ids:
            file.write(json.dumps({"_id": id, "text": f"question {id}"}) + "\n")
            for document in rng.choice(np.arange(20, 40), rng.integers(1, 4), replace=False):
                qrels.write(f"{id}\td{document}\t{rng.integers(1, 3)}\n")
    study = make_study(folder / "study", [Passage(f"d{n}", f"T{n}", f"text {n}") for n in range(40)])
    import_questions(study, folder, format="beir")
    rows = np.stack([rng.permutation(40)[:DEPTH] for _ in ids]).astype(np.int32)
    scores = np.sort(rng.random((len(ids), DEPTH), dtype=np.float32), axis=1)[:, ::-1].copy()
    write_run(study, "random", ids, Hits(rows, scores), {"retriever": "imported", "split": "test"})
    return study


def as_mteb_takes_it(study, name):
    run = study.run(name)
    results = {}
    for id, rows, scores in zip(run.question_ids, run.hits.ordinals, run.hits.scores, strict=True):
        known = rows >= 0
        passages = study.corpus.passages(rows[known].tolist())
        results[id] = {passage.id: float(score) for passage, score in zip(passages, scores[known], strict=True)}
    return results


def qrels_of(folder, split="test"):
    grades = {}
    for line in (folder / "qrels" / f"{split}.tsv").read_text().splitlines()[1:]:
        question, passage, grade = line.split("\t")
        grades.setdefault(question, {})[passage] = int(grade)
    return grades


def test_figures_equal_mteb_s_own(study, tmp_path):
    pytest.importorskip("mteb")
    from mteb._evaluators.retrieval_metrics import calculate_retrieval_scores
    from mteb.results import TaskResult

    export_task(study, tmp_path / "births", "test")
    path, ours = export_results(study, "random", "mteb", "Births", tmp_path / "Births.json")
    theirs = calculate_retrieval_scores(
        as_mteb_takes_it(study, "random"), qrels_of(tmp_path / "births"), [1, 3, 5, 10, 20]
    )
    for measure, kind in (
        ("ndcg", theirs.ndcg), ("map", theirs.map), ("recall", theirs.recall), ("precision", theirs.precision),
        ("mrr", theirs.mrr), ("success", theirs.hit_rate),
    ):  # fmt: skip
        for key, value in kind.items():
            k = key.split("@")[1]
            assert ours[NAMES[measure][0].format(k)] == pytest.approx(value, abs=2e-5), (measure, k)
    assert 0 < ours["ndcg_at_10"] < 1
    result = TaskResult.from_disk(path)
    assert result.task_name == "Births" and result.get_score() == pytest.approx(ours["ndcg_at_10"], abs=1e-6)
    [entry] = read_mteb(path)
    assert (entry.name, entry.task, entry.split) == ("Births", "Births", "test")
    assert entry.figures["ndcg_at_10"] == pytest.approx(ours["ndcg_at_10"], abs=1e-6)


def test_mteb_loads_the_task(study, tmp_path, monkeypatch):
    pytest.importorskip("mteb")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    from datasets import config

    monkeypatch.setattr(config, "HF_DATASETS_CACHE", tmp_path / "cache")
    made = export_task(study, tmp_path / "town-births", "test", own_passages_left_out=True)
    spec = importlib.util.spec_from_file_location("town_births_task", made.folder / "task.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    task = module.TownBirths()
    assert task.ignore_identical_ids is True
    task.load_data()
    data = task.dataset["default"]["test"]
    assert data["relevant_docs"] == qrels_of(made.folder)
    assert sorted(data["queries"]["id"]) == sorted(question.id for question in study.questions.all())
    assert data["corpus"][3]["title"] == "T3" and data["corpus"][3]["text"] == "text 3" and len(data["corpus"]) == 40


def test_the_task_folder_is_beir_s_and_comes_back(study, tmp_path):
    made = export_task(study, tmp_path / "task", "test")
    assert (made.passages, made.questions) == (40, 15)
    assert (made.folder / "corpus.jsonl").read_text().splitlines()[0].startswith('{"_id": "d0", "title": "T0"')
    from blindspot.backend.core.study import Study

    back = Study.create(tmp_path / "back")
    import_passages(back, made.folder, format="beir")
    import_questions(back, made.folder, format="beir")
    assert back.corpus.digest == study.corpus.digest
    assert [(q.id, q.text, set(q.gold)) for q in back.questions.all()] == [
        (q.id, q.text, set(q.gold)) for q in study.questions.all()
    ]
    (made.folder / "qrels" / "test.tsv").unlink()  # MTEB's repositories have JSON lines alone
    other = Study.create(tmp_path / "json")
    import_passages(other, made.folder, format="beir")
    import_questions(other, made.folder, format="beir")
    assert [q.gold for q in other.questions.all()] == [q.gold for q in back.questions.all()]
    with (made.folder / "qrels" / "test.jsonl").open("a") as file:
        file.write('{"query-id": "q1", "corpus-id": "d1", "score": "much"}\n')
    broken = Study.create(tmp_path / "broken")
    import_passages(broken, made.folder, format="beir")
    with pytest.raises(BadInput, match=r"test.jsonl:\d+: .*'much'"):
        import_questions(broken, made.folder, format="beir")
    with pytest.raises(Refused, match="task exists; name another folder"):
        export_task(study, tmp_path / "task")
    with pytest.raises(Missing, match="no dev question has gold passages"):
        export_task(study, tmp_path / "other", "dev")


def test_beir_s_results(study, tmp_path):
    path, values = export_results(study, "random", "beir", None, tmp_path / "r.json")
    content = json.loads(path.read_text())
    assert content["NDCG"]["NDCG@10"] == pytest.approx(mean_measures(study, study.run("random"))["ndcg"][10], abs=1e-5)
    assert set(content) == {"dataset", "run", "ignore_identical_ids", "NDCG", "MAP", "Recall", "P", "MRR", "Accuracy"}
    assert content["ignore_identical_ids"] is False and values["Recall@20"] >= values["Recall@10"]
    with pytest.raises(Refused, match="--format must be one of mteb, beir"):
        export_results(study, "random", "trec")


def test_own_passages_are_left_out_as_mteb_ignores_identical_ids(study, tmp_path):
    pytest.importorskip("mteb")
    from mteb._evaluators.retrieval_metrics import calculate_retrieval_scores

    lines = []
    for question, hits in as_mteb_takes_it(study, "random").items():
        lines += [f"{question} Q0 {passage} 0 {score:.9f} x" for passage, score in hits.items()]
    (tmp_path / "random.trec").write_text("\n".join(lines) + "\n")
    import_run(study, tmp_path / "random.trec", "with-own")
    import_run(study, tmp_path / "random.trec", "without-own", without_own_passage=True)
    run = study.run("without-own")
    assert run.manifest["own_passage"] == "left out"
    assert not any(id in hits for id, hits in as_mteb_takes_it(study, "without-own").items())
    export_task(study, tmp_path / "births", "test")
    results = as_mteb_takes_it(study, "with-own")
    assert any(id in hits for id, hits in results.items())
    kept = {id: {key: value for key, value in hits.items() if key != id} for id, hits in results.items()}
    theirs = calculate_retrieval_scores(kept, qrels_of(tmp_path / "births"), [10])
    path, _ = export_results(study, "without-own", "beir", None, tmp_path / "own.json")
    content = json.loads(path.read_text())
    assert content["ignore_identical_ids"] is True
    assert content["NDCG"]["NDCG@10"] == pytest.approx(theirs.ndcg["NDCG@10"], abs=2e-5)


def test_lists_keep_their_depth_and_order():
    ordinals = np.array([[5, 3, 7, 1], [2, 4, -1, -1], [9, 8, 6, 0]])
    scores = np.array([[4, 3, 2, 1], [2, 1, -np.inf, -np.inf], [4, 3, 2, 1]], dtype=np.float32)
    kept, values = without_own(ordinals, np.array([3, 4, -2]), 3, scores)
    assert kept.tolist() == [[5, 7, 1], [2, -1, -1], [9, 8, 6]]
    assert values.tolist() == [[4, 2, 1], [2, -np.inf, -np.inf], [4, 3, 2]]


def test_retrieval_without_own_passages_has_the_asked_depth(indexed_study, tmp_path):
    from blindspot.backend.core.copying import copy_study
    from blindspot.backend.core.study import Study

    copy_study(indexed_study, tmp_path / "copy")
    study = Study.open(tmp_path / "copy")
    passage = study.corpus.passages([0])[0]
    study.questions.add([Question(passage.id, passage.text, dataset="own", split="test", gold=("p1",))])
    run = retrieve(study, "bm25", k=5, split="own", name="plain")
    assert study.corpus.passages([int(run.hits.ordinals[0, 0])])[0].id == passage.id
    left = retrieve(study, "bm25", k=5, split="own", name="left", without_own_passage=True)
    more = retrieve(study, "bm25", k=6, split="own", name="more")
    assert left.hits.ordinals[0].tolist() == more.hits.ordinals[0, 1:].tolist() and left.hits.k == 5
    assert left.manifest["own_passage"] == "left out" and "own_passage" not in run.manifest


def test_figures_from_elsewhere_stand_beside_the_report(study, tmp_path):
    path, values = export_results(study, "random", "mteb", "Births", tmp_path / "Births.json")
    words = [
        "report",
        "--run",
        "random",
        "--relevance",
        "gold",
        "--measure",
        "ndcg",
        "--k",
        "10",
        "--beside",
        str(path),
    ]
    done = CliRunner().invoke(app, [*words, "--study", str(study.folder)])
    assert done.exit_code == 0, done.output
    assert "Measured elsewhere (MTEB)" in done.output and f"{100 * values['ndcg_at_10']:.1f}" in done.output
    (tmp_path / "bad.json").write_text("[1]")
    with pytest.raises(BadInput, match="bad.json: is not an MTEB result file"):
        read_mteb(tmp_path / "bad.json")
    with pytest.raises(BadInput, match="cannot be read"):
        read_mteb(tmp_path / "absent.json")


def test_the_task_folder_is_named_by_position_or_by_out(study, tmp_path):
    def command(*words):
        return CliRunner().invoke(app, ["export", "task", *map(str, words), "--study", str(study.folder)])

    assert command("--out", tmp_path / "by-out").exit_code == command(tmp_path / "by-place").exit_code == 0
    names = sorted(path.relative_to(tmp_path / "by-out") for path in (tmp_path / "by-out").rglob("*"))
    assert names == sorted(path.relative_to(tmp_path / "by-place") for path in (tmp_path / "by-place").rglob("*"))
    for words in ((), (tmp_path / "a", "--out", tmp_path / "b")):
        done = command(*words)
        assert done.exit_code == 2 and "name one new folder" in done.output
