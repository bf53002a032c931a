"""The passage with a question's own id is left out of its list where asked, as BEIR and MTEB do."""

from __future__ import annotations

import ir_measures
import numpy as np
import pytest

from blindspot.backend.core.own_passages import without_own
from blindspot.backend.data.importing.runs import import_run
from blindspot.backend.evaluation.measures import MEASURES
from blindspot.backend.evaluation.relevance import relevant
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.db.records import Passage, Question
from tests.studies import make_study

DEPTH = 20


def test_figures_are_those_without_the_own_passages(tmp_path):
    """Every third question asks with a passage's own id, and has other passages as gold."""
    rng = np.random.default_rng(0)
    ids = [f"d{number}" if number % 3 == 0 else f"q{number}" for number in range(15)]
    gold = {id: tuple(f"d{n}" for n in rng.choice(np.arange(20, 40), rng.integers(1, 4), replace=False)) for id in ids}
    study = make_study(
        tmp_path / "study",
        [Passage(f"d{n}", f"T{n}", f"text {n}") for n in range(40)],
        [Question(id, f"question {id}", dataset="own", split="test", gold=gold[id]) for id in ids],
    )
    lists = {id: {f"d{n}": float(DEPTH - rank) for rank, n in enumerate(rng.permutation(40)[:DEPTH])} for id in ids}
    assert any(id in hits for id, hits in lists.items())
    path = tmp_path / "random.trec"
    path.write_text(
        "".join(f"{id} Q0 {passage} 0 {score} x\n" for id, hits in lists.items() for passage, score in hits.items())
    )
    run = import_run(study, path, "without-own", without_own_passage=True) and study.run("without-own")
    assert run.manifest["own_passage"] == "left out"
    found = relevant(study, run, "gold")
    ours = dict(zip([q.id for q in found.questions], MEASURES.get("ndcg").values_of(found, 10), strict=True))
    kept = [ir_measures.ScoredDoc(id, p, score) for id, hits in lists.items() for p, score in hits.items() if p != id]
    qrels = [ir_measures.Qrel(id, p, 1) for id in ids for p in gold[id]]
    measure = ir_measures.parse_measure("nDCG@10")
    theirs = {each.query_id: each.value for each in ir_measures.iter_calc([measure], qrels, kept)}
    assert ours == pytest.approx(theirs)


def test_lists_keep_their_depth_and_order():
    ordinals = np.array([[5, 3, 7, 1], [2, 4, -1, -1], [9, 8, 6, 0]])
    scores = np.array([[4, 3, 2, 1], [2, 1, -np.inf, -np.inf], [4, 3, 2, 1]], dtype=np.float32)
    kept, values = without_own(ordinals, np.array([3, 4, -2]), 3, scores)
    assert kept.tolist() == [[5, 7, 1], [2, -1, -1], [9, 8, 6]]
    assert values.tolist() == [[4, 2, 1], [2, -np.inf, -np.inf], [4, 3, 2]]


def test_retrieval_without_own_passages_has_the_asked_depth(indexed_study, tmp_path):
    from blindspot.backend.core.study import Study
    from tests.studies import copied

    copied(indexed_study, tmp_path / "copy")
    study = Study.open(tmp_path / "copy")
    passage = study.corpus.passages([0])[0]
    study.questions.add([Question(passage.id, passage.text, dataset="own", split="test", gold=("p1",))])
    run = retrieve(study, "bm25", k=5, split="own", name="plain")
    assert study.corpus.passages([int(run.hits.ordinals[0, 0])])[0].id == passage.id
    left = retrieve(study, "bm25", k=5, split="own", name="left", without_own_passage=True)
    more = retrieve(study, "bm25", k=6, split="own", name="more")
    assert left.hits.ordinals[0].tolist() == more.hits.ordinals[0, 1:].tolist() and left.hits.k == 5
    assert left.manifest["own_passage"] == "left out" and "own_passage" not in run.manifest
