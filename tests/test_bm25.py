"""BM25, compared with Pyserini's searcher, and the exact scoring of any passage."""

import json
import subprocess
import sys

import numpy as np
import pytest

from blindspot.backend.retrieval import bm25, lucene_search
from blindspot.backend.retrieval.bm25 import BM25
from blindspot.backend.retrieval.lucene import java_class, on_jvm
from blindspot.backend.retrieval.postings import arrays
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.db.errors import Missing, Refused
from blindspot.db.records import Passage
from tests.pyserini_oracle import as_anserini_prints
from tests.studies import births, make_study, people


@pytest.fixture(scope="module")
def pyserini(tmp_path_factory):
    """Search an index with Pyserini's own searcher, in one process for all tests: its import takes ten seconds."""
    errors = tmp_path_factory.mktemp("pyserini") / "errors"
    with open(errors, "w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.pyserini_oracle"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
        )

    def search(study, questions, k):
        process.stdin.write(json.dumps([str(study.folder / "indexes" / "bm25"), k, questions]) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        assert line, errors.read_text()[-2000:]
        return json.loads(line)

    yield search
    process.kill()
    process.communicate()


def assert_same_hits(pyserini, study, texts, k):
    """Check for equal scores at every rank, to the last bit, and equal passages except for ties at the last score."""
    found = BM25(study).search(texts, k)
    for row, expected in enumerate(pyserini(study, texts, k)):
        real = found.ordinals[row] >= 0
        ids = [passage.id for passage in study.corpus.passages(found.ordinals[row][real].tolist())]
        scores = found.scores[row][real]
        assert as_anserini_prints(scores) == [score for _, score in expected]
        assert {i for i, score in zip(ids, scores, strict=True) if score > scores[-1]} <= {i for i, _ in expected}


@pytest.fixture(params=["Lucene", "postings"])
def way(request, monkeypatch):
    """Search in Lucene, as for few questions, or in the postings, as for many."""
    monkeypatch.setattr(bm25, "WORTH_POSTINGS", 0 if request.param == "postings" else 1e99)
    return request.param


def in_lucene_and_in_postings(study, texts, k, monkeypatch, **settings):
    """The hits of both ways; the second is known not to be the first."""
    monkeypatch.setattr(bm25, "WORTH_POSTINGS", 1e99)
    lucene = BM25(study, **settings).search(texts, k)
    monkeypatch.setattr(bm25, "WORTH_POSTINGS", 0)
    retriever = BM25(study, **settings)
    monkeypatch.setattr(retriever, "_search_block", None)  # Lucene's search would fail
    return lucene, retriever.search(texts, k)


def test_equals_pyserini(indexed_study, pyserini, way):
    texts = [question.text for question in indexed_study.questions.all()[:10]] + [
        "a town with a harbour",
        "the of",
        "zzz",
    ]
    assert_same_hits(pyserini, indexed_study, texts, 10)


ODD = [
    "",
    "the of",
    "harbour harbour town",
    "Käse 😀 𝒜 東京",
    "U.S.A. O'Neil's\r\nharbour\u2028town",
    "zzz",
    "Oslo " * 90,
]


@pytest.mark.parametrize("settings", [{}, {"k1": 1.6, "b": 0.75}, {"k1": 0.0, "b": 0.0}, {"k1": 900.0, "b": 1.0}])
def test_the_postings_give_lucenes_hits(indexed_study, monkeypatch, settings):
    texts = [question.text for question in indexed_study.questions.all()] + ODD
    for k in (1, 7, 1000):
        lucene, found = in_lucene_and_in_postings(indexed_study, texts, k, monkeypatch, **settings)
        assert (found.scores == lucene.scores).all() and (found.ordinals == lucene.ordinals).all()


def test_the_postings_equal_lucene_where_many_passages_compete(tmp_path, monkeypatch):
    """More passages than a window holds, more hits than the selection holds at a time, and ties."""
    draw = np.random.default_rng(0)
    words = np.array([f"word{i}" for i in range(60)])
    texts = [" ".join(words[np.minimum(draw.zipf(1.2, size), 60) - 1]) for size in draw.integers(3, 80, 9000)]
    study = make_study(tmp_path / "s", [Passage(f"id{i}", "Town", text) for i, text in enumerate(texts)])
    bm25.build_index(study, threads=2)
    reverse_rows(study)
    questions = [" ".join(draw.choice(words, 4)) for _ in range(20)]
    best = []
    for k, settings in ((3, {}), (500, {}), (3, {"b": 0.9})):  # the passages differ in length, so b counts
        lucene, found = in_lucene_and_in_postings(study, questions, k, monkeypatch, **settings)
        assert (found.scores == lucene.scores).all() and (found.ordinals == lucene.ordinals).all()
        best.append(found.scores[:, 0])
    assert (best[0] == best[1]).all() and (best[0] != best[2]).all()


def test_lucene_searches_where_there_are_no_postings(tmp_path, monkeypatch):
    """For a collection that the postings' format cannot hold."""
    monkeypatch.setattr(bm25, "WORTH_POSTINGS", 0)
    monkeypatch.setattr(arrays, "MOST_PAIRS", 0)
    study = make_study(tmp_path / "s", people(5))
    assert bm25.build_index(study, threads=1)["postings"] is False
    assert not list((study.folder / "indexes" / "bm25").glob("postings*"))
    assert (BM25(study).search(["harbour"], 3).ordinals >= 0).any()


def test_lucene_searches_where_the_compiled_search_does_not_load(indexed_study, monkeypatch):
    monkeypatch.setattr(bm25, "WORTH_POSTINGS", 0)
    monkeypatch.setitem(sys.modules, "blindspot.backend.retrieval.postings.kernel", None)
    arrays.can_search.cache_clear()
    retriever = BM25(indexed_study)
    monkeypatch.setattr(retriever, "_search_postings", None)
    assert (retriever.search(["harbour"], 3).ordinals >= 0).all()
    arrays.can_search.cache_clear()


def test_a_question_of_stop_words_finds_nothing(indexed_study, way):
    hits = BM25(indexed_study).search(["the of and"], 5)
    assert (hits.ordinals == -1).all() and np.isneginf(hits.scores).all()


def test_equal_scores_are_ordered_by_ordinal(tmp_path):
    study = make_study(tmp_path / "s", [Passage(f"id{i}", "Town", "A quiet harbour town.") for i in range(90)])
    bm25.build_index(study, threads=3)
    assert BM25(study).search(["harbour"], 40).ordinals[0].tolist() == list(range(40))


def reverse_rows(study):
    """Simulate an index in reverse order with equal scores, so that Lucene's own order of ties is wrong."""
    path = study.folder / "indexes" / "bm25" / "ordinals.npy"
    np.save(path, np.load(path)[::-1].copy())


def test_the_first_ordinals_win_a_tie_of_any_length(tmp_path, way):
    study = make_study(tmp_path / "s", [Passage(f"id{i}", "Town", "A quiet harbour town.") for i in range(700)])
    bm25.build_index(study, threads=1)
    reverse_rows(study)
    hits = BM25(study).search(["harbour", "nothing", "quiet town"], 40)
    assert hits.ordinals[[0, 2]].tolist() == [list(range(40))] * 2 and (hits.ordinals[1] == -1).all()
    assert len({*hits.scores[0].tolist()}) == 1


def test_blocks_change_nothing_and_show_progress(indexed_study, monkeypatch):
    texts = [question.text for question in indexed_study.questions.all()[:7]] + ["the of", "harbour"]
    whole, seen = BM25(indexed_study).search(texts, 10), []
    monkeypatch.setattr(lucene_search, "HITS_PER_CALL", 2 * (10 + lucene_search.TIE_MARGIN))
    hits = BM25(indexed_study).search(texts, 10, progress=lambda done, total, doing: seen.append((done, total)))
    assert (hits.ordinals == whole.ordinals).all() and (hits.scores == whole.scores).all()
    assert seen == [(0, 9), (2, 9), (4, 9), (6, 9), (8, 9), (9, 9)]


def test_ends_between_two_blocks(indexed_study, monkeypatch):
    monkeypatch.setattr(lucene_search, "QUESTIONS_PER_CALL", 1)
    retriever, seen = BM25(indexed_study), []

    def end(done, total, doing):
        seen.append(done)
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        retriever.search(["harbour", "Oslo"], 3, progress=end)
    assert seen == [0, 1] and (retriever.search(["harbour"], 3).ordinals >= 0).all()


def test_more_hits_than_passages_and_no_questions(indexed_study, way):
    hits = BM25(indexed_study).search(["harbour"], 1000)
    found = hits.ordinals[0] >= 0
    assert hits.k == 1000 and 0 < found.sum() <= len(indexed_study.corpus)
    assert BM25(indexed_study).search([], 5).ordinals.shape == (0, 5)


def test_score_gives_what_search_gives_and_zero_without_a_shared_word(indexed_study):
    retriever = BM25(indexed_study)
    texts = ["Where was Arve Eurset4 born?", "harbour Oslo"]
    hits = retriever.search(texts, len(indexed_study.corpus))
    shuffled = np.random.default_rng(0).permuted(np.tile(np.arange(60, dtype=np.int32), (2, 1)), axis=1)
    scores = retriever.score(texts, shuffled)
    for row in range(2):
        expected = np.zeros(60, np.float32)
        found = hits.ordinals[row] >= 0
        expected[hits.ordinals[row][found]] = hits.scores[row][found]
        np.testing.assert_allclose(scores[row], expected[shuffled[row]], rtol=1e-5)
    assert (scores == 0).any() and np.isneginf(retriever.score(texts[:1], np.array([[-1]], np.int32))).all()


def test_k1_and_b_act_at_search_time(indexed_study):
    text = ["Where was Arve Eurset4 born?"]
    assert (
        BM25(indexed_study).search(text, 3).scores[0, 0]
        != BM25(indexed_study, k1=1.6, b=0.75).search(text, 3).scores[0, 0]
    )


def test_odd_ids_and_texts_survive(tmp_path):
    passages = [
        Passage("wiki:1/é#?", 'Ünïcode "quoted"', "Ein Käse\nmit Löchern und \\ Strichen"),
        Passage("0", "zero", "plain"),
        Passage("𝚺 東\n\u0001", "\u2028", "harbour\u0007"),
    ]
    study = make_study(tmp_path / "s", passages)
    bm25.build_index(study, threads=1)
    assert BM25(study).search(["Käse", "harbour"], 2).ordinals.tolist() == [[0, -1], [2, -1]]


def test_the_ids_are_those_of_a_call_for_each_document(tmp_path, monkeypatch):
    monkeypatch.setattr(bm25, "PASSAGES_PER_FILE", 7)  # several files, and several blocks of ids
    study = make_study(tmp_path / "s", people(60))
    bm25.build_index(study, threads=2)

    def one_by_one():
        reader = lucene_search.open_reader(study.folder / "indexes" / "bm25")
        values = java_class("org.apache.lucene.index.MultiDocValues").getBinaryValues(reader, "id")
        ids = [values.binaryValue().utf8ToString() for row in range(reader.maxDoc()) if values.advanceExact(row)]
        reader.close()
        return ids

    rows = np.load(study.folder / "indexes" / "bm25" / "ordinals.npy")
    assert [passage.id for passage in study.corpus.passages(rows)] == on_jvm(one_by_one)
    assert sorted(rows.tolist()) == list(range(len(study.corpus)))


def test_without_an_index_and_with_anothers(tmp_path, indexed_study):
    study = make_study(tmp_path / "s", people(5))
    with pytest.raises(Missing, match="blindspot index bm25"):
        BM25(study)
    (study.folder / "indexes").mkdir()
    (study.folder / "indexes" / "bm25").symlink_to(indexed_study.folder / "indexes" / "bm25")
    with pytest.raises(Refused, match="other passages"):
        BM25(study)


def test_an_interrupted_build_leaves_nothing(tmp_path):
    study = make_study(tmp_path / "s", people(5))

    def interrupt(done, total, doing):
        if "Lucene's rows" in doing:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bm25.build_index(study, threads=1, progress=interrupt)
    assert list((study.folder / "indexes").iterdir()) == []


def test_real_passages_equal_pyserini(tmp_path, real_data, pyserini, monkeypatch):
    """2,000 Wikipedia passages, 60 EntityQuestions questions, k=100."""
    from blindspot.backend.core.study import Study
    from blindspot.backend.data.importing.importer import import_passages
    from tests.real import first_passages, questions

    study = Study.create(tmp_path / "s")
    import_passages(study, first_passages(real_data, 2000, tmp_path))
    bm25.build_index(study)
    texts = [question["question"] for question in questions(real_data, "dev")[:60]]
    for worth in (0, 1e99):
        monkeypatch.setattr(bm25, "WORTH_POSTINGS", worth)
        assert_same_hits(pyserini, study, texts, 100)


def test_a_question_of_thousands_of_words(indexed_study, way):
    text = " ".join(f"word{i}" for i in range(3000)) + " harbour"
    assert (BM25(indexed_study).search([text], 3).ordinals >= 0).all()


def test_a_small_study_keeps_as_many_passages_as_it_has(tmp_path):
    """The usual k is 100. A larger k than there are passages is refused where somebody asks for it."""
    passages = people(12)
    study = make_study(tmp_path / "s", passages, births(passages))
    bm25.build_index(study, threads=1)
    with pytest.raises(Refused, match="k is 100, but there are only 12 passages"):
        retrieve(study, "bm25", split="dev", k=100)
    assert retrieve(study, "bm25", split="dev").hits.k == 12
