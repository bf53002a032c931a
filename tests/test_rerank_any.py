"""Reranking by a cross-encoder or by stored scores, over any retriever or run: the library's own order, live, one line."""

import numpy as np
import pytest

from blindspot.backend.judges.imported import import_judgements
from blindspot.backend.judges.rerank import RerankKind, rerank
from blindspot.backend.retrieval import live
from blindspot.backend.retrieval.bm25 import BM25
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.backend.retrieval.retriever import kind_of_run
from blindspot.backend.service.service import Service
from blindspot.backend.training import scoring
from blindspot.backend.training.ready_cross_encoder import add_cross_encoder
from blindspot.db.errors import Missing, Refused
from blindspot.db.records import Hits
from tests.encoder_models import ready
from tests.indexes import bm25_of
from tests.studies import births, make_study, people

K = 10
QUESTIONS = ["Where was Arve Burset1 born?", "a weaver from Oslo"]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    passages = people(90)
    questions = [*births(passages, "train")[:20], *births(passages, "dev")[20:40]]
    made = make_study(tmp_path_factory.mktemp("rerank-any") / "s", passages, questions)
    bm25_of(made)
    retrieve(made, "bm25", split="dev", k=K)
    add_cross_encoder(made, "ce", str(ready(made.folder / "outside")), device="cpu")
    qrels = "".join(f"{q.id} 0 {q.gold[0]} 1\n{q.id} 0 p2 0\n" for q in made.questions.all("dev"))
    (made.folder / "tool.qrels").write_text(qrels)
    import_judgements(made, "tool", str(made.folder / "tool.qrels"))
    return made


@pytest.fixture(autouse=True)
def whole_precision(monkeypatch):
    """Random weights give scores that 16 bits would not tell apart."""
    monkeypatch.setattr(scoring, "uses_bfloat16", lambda precision, device: False)


def kept(questions, base):
    """(question, rows of its hits) without padding."""
    rows = [[row for row in found if row >= 0] for found in base.ordinals.tolist()]
    return list(zip(questions, rows, strict=True))


def predicted(study, question, rows):
    """The library's own prediction for some passages."""
    from sentence_transformers import CrossEncoder

    model = CrossEncoder(str(study.folder / "outside"), device="cpu", max_length=256)
    return model.predict([(question, f"{p.title} [SEP] {p.text}") for p in study.corpus.passages(rows)])


def by_hand(study, questions, base, depth):
    """The first `depth` rows of each list in the order of the library's own prediction."""
    orders = []
    for question, rows in kept(questions, base):
        scores = predicted(study, question, rows[:depth])
        orders.append([rows[place] for place in np.argsort(-scores, kind="stable")] + rows[depth:])
    return orders


def test_a_cross_encoder_reranks_a_retriever_live_and_in_a_run(study):
    name = "rerank:ce@bm25"
    assert name in live.answering_retrievers(study)
    hits = live.search(study, name, QUESTIONS, K)
    base = BM25(study).search(QUESTIONS, 90)
    scored = [
        dict(zip(rows, predicted(study, question, rows), strict=True)) for question, rows in kept(QUESTIONS, base)
    ]
    for found, known in zip(hits.ordinals.tolist(), scored, strict=True):
        # The order of the library's own scores, up to rounding: texts are padded with others than here.
        np.testing.assert_allclose([known[row] for row in found], sorted(known.values())[::-1][:K], atol=1e-5)
    run = retrieve(study, "rerank", judge="ce", over="bm25", depth=4, split="dev", k=K, device="cpu")
    assert run.name == "rerank-ce-bm25-dev" and run.manifest["judge_kind"] == "cross-encoder"
    texts = [question.text for question in study.questions.with_ids(run.question_ids)]
    assert run.hits.ordinals.tolist() == by_hand(study, texts, BM25(study).search(texts, K), 4)
    assert (np.diff(run.hits.scores) <= 0).all(), "scores fall along each list"
    kind = kind_of_run(run.manifest)
    assert kind.describe(run.manifest) == "bm25 reranked by ce, first 4"
    assert kind.options_of_run(run.manifest) == {"judge": "ce", "over": "bm25", "depth": 4}
    assert kind.name_of(kind.options(**kind.options_of(name))) == name
    assert kind.label(name) == "bm25 reranked by ce"
    with_service = Service(study, "cpu")
    try:
        assert name in with_service.retrievers()
    finally:
        with_service.close()


def test_a_run_is_reranked(study):
    run = retrieve(
        study, "rerank", judge="ce", over="bm25-dev", depth=6, split="dev", k=K, device="cpu", name="over-run"
    )
    stored = study.run("bm25-dev")
    texts = [question.text for question in study.questions.with_ids(run.question_ids)]
    assert run.hits.ordinals.tolist() == by_hand(study, texts, stored.hits, 6)
    assert run.manifest["over"]["run"] == "bm25-dev" and run.manifest["retriever"] == "rerank:ce@run:bm25-dev"
    assert "rerank:ce@run:bm25-dev" not in live.answering_retrievers(study)
    first = retrieve(study, "run", run="bm25-dev", split="dev", k=3).manifest
    assert kind_of_run(first).name == "run" and kind_of_run(stored.manifest).name == "bm25"
    with pytest.raises(Missing, match="run 'bm25-dev' has no hits for 20 of 20 questions.*--split"):
        retrieve(study, "rerank", judge="ce", over="bm25-dev", split="train", k=K, name="no")


def test_stored_scores_of_any_judge_order_a_list(study):
    run = retrieve(study, "rerank", judge="tool", over="bm25", split="dev", k=K, name="by-tool")
    assert run.manifest["judge_kind"] == "imported"
    stored = study.run("bm25-dev").hits.ordinals
    for question, found, before in zip(
        study.questions.with_ids(run.question_ids), run.hits.ordinals, stored, strict=True
    ):
        gold = study.corpus.ordinals([question.gold[0], "p2"])
        first = [row for row in (gold[question.gold[0]], gold["p2"]) if row in before.tolist()]
        rest = [row for row in before.tolist() if row not in first]
        assert found.tolist() == first + rest, "known pairs by score, the others in their old order"
    with pytest.raises(Refused, match="has no stored scores of these passages, and is asked nothing here"):
        retrieve(study, "rerank", judge="tool", over="bm25", split="train", k=K, name="no")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"judge": "nobody"}, Missing, "there is no judge 'nobody'"),
        ({"judge": "ce", "over": "nothing"}, Missing, "--over names no retriever or run: 'nothing'; retrievers: bm25"),
        ({"judge": "ce", "over": "rerank:ce@bm25"}, Refused, "--over cannot rerank"),
    ],
)
def test_bad_options_are_one_line(study, options, error, message):
    with pytest.raises(error, match=message) as caught:
        retrieve(study, "rerank", k=5, split="dev", name="bad", **options)
    assert "\n" not in str(caught.value) and "bad" not in study.runs()


def test_unknown_pairs_keep_their_order():
    hits = Hits(np.array([[4, 7, 9, 2, 5, -1]], np.int32), np.array([[9, 8, 7, 6, 5, -np.inf]], np.float32))
    found = rerank(hits, np.array([[np.nan, 0.2, np.nan, 0.9]]))
    assert found.ordinals.tolist() == [[2, 7, 4, 9, 5, -1]]
    assert np.allclose(found.scores[0, :5], [0.9, 0.2, -0.8, -1.8, -2.8]) and found.scores[0, 5] == -np.inf
    nothing = rerank(hits, np.full((1, 4), np.nan))
    assert nothing.ordinals.tolist() == hits.ordinals.tolist() and nothing.scores[0, :3].tolist() == [-1, -2, -3]
    assert RerankKind().options_of("rerank:ce@hybrid:minilm") == {"judge": "ce", "over": "hybrid:minilm"}
