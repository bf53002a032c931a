"""corpus.db: passages read back as written, by row or by id; an interrupted import leaves nothing."""

from __future__ import annotations

import hashlib
import threading

import pytest

from blindspot.db.corpus import Corpus, CorpusWriter, DuplicateId
from blindspot.db.errors import Missing, Refused
from blindspot.db.records import Passage

PASSAGES = [Passage(f"p{i}", f"Title {i % 7}", f"Text number {i}, façade \U0001f3db.") for i in range(2500)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "corpus.db"
    with CorpusWriter(path) as writer:
        writer.add(PASSAGES[:1])
        writer.add(PASSAGES[1:1700])
        writer.add([])
        writer.add(PASSAGES[1700:])
        writer.finish("psgs.tsv", "ab" * 32)
    assert [p.name for p in path.parent.iterdir()] == ["corpus.db"]
    return Corpus(path)


def test_rows_are_numbered_from_zero_in_the_order_written(corpus):
    assert len(corpus) == 2500
    assert list(corpus.scan()) == PASSAGES
    assert list(corpus.scan(998, 2003)) == PASSAGES[998:2003]
    assert list(corpus.scan(2499, 9999)) == PASSAGES[2499:]
    assert corpus.passage(0) == PASSAGES[0]


def test_passages_keep_the_order_asked_for_and_repeats(corpus):
    wanted = [2499, 0, 7, 7, *range(1500), 0]
    assert corpus.passages(wanted) == [PASSAGES[i] for i in wanted]


@pytest.mark.parametrize("ordinal", [-1, 2500])
def test_a_row_outside_is_missing(corpus, ordinal):
    with pytest.raises(Missing, match=f"{ordinal}"):
        corpus.passages([0, ordinal])


def test_ids_that_are_absent_are_left_out(corpus):
    found = corpus.ordinals([f"p{i}" for i in range(0, 5000, 2)])
    assert found == {f"p{i}": i for i in range(0, 2500, 2)}


def test_digest_is_over_ids_titles_and_texts(corpus):
    packed = "".join(f"{p.id}\0{p.title}\0{p.text}\0" for p in PASSAGES).encode()
    assert corpus.digest == hashlib.sha256(packed).hexdigest()
    assert (corpus.source.name, corpus.source.sha256) == ("psgs.tsv", "ab" * 32)


def test_threads_share_a_corpus(corpus):
    wrong = []

    def work(seed):
        for i in range(50):
            rows = [(seed * 37 + i * 11 + j) % 2500 for j in range(20)]
            if corpus.passages(rows) != [PASSAGES[row] for row in rows]:
                wrong.append(rows)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_an_id_twice_names_both_rows(tmp_path):
    with pytest.raises(DuplicateId) as error, CorpusWriter(tmp_path / "corpus.db") as writer:
        writer.add([Passage(id, "", "x") for id in "abcbda"])
        writer.finish()
    assert (error.value.id, error.value.first, error.value.second) == ("b", 1, 3)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["a\0b", "half \ud800 pair"])
def test_text_that_cannot_be_kept_is_no_passage(tmp_path, text):
    with pytest.raises(ValueError), CorpusWriter(tmp_path / "corpus.db") as writer:
        writer.add([Passage("a", "", text)])
    assert list(tmp_path.iterdir()) == []


def test_what_the_progress_raises_stops_the_index_and_leaves_nothing(tmp_path, monkeypatch):
    class Cancelled(Exception):
        pass

    def tick():
        raise Cancelled

    ticks = iter(range(0, 10_000_000, 10))
    monkeypatch.setattr("blindspot.db.corpus.time.monotonic", lambda: next(ticks))
    with pytest.raises(Cancelled), CorpusWriter(tmp_path / "corpus.db") as writer:
        writer.add([Passage(str(i), "", "x") for i in range(30_000)])
        writer.finish(tick=tick)
    assert list(tmp_path.iterdir()) == []


def test_one_writer_at_a_time_and_what_a_killed_one_left_is_taken_over(tmp_path):
    path = tmp_path / "corpus.db"
    (tmp_path / "corpus.db.partial").write_bytes(b"left by a killed import")
    with CorpusWriter(path) as writer:
        with pytest.raises(Refused, match="another import"), CorpusWriter(path):
            pass
        writer.add(PASSAGES[:3])
        writer.finish()
    assert list(Corpus(path).scan()) == PASSAGES[:3]
    with pytest.raises(Refused, match="holds one"):
        CorpusWriter(path)


def test_no_corpus_or_something_else_is_missing(tmp_path):
    with pytest.raises(Missing, match="import"):
        Corpus(tmp_path / "corpus.db")
    (tmp_path / "corpus.db").write_text("not a database, but long enough to be looked at as one")
    with pytest.raises(Missing):
        Corpus(tmp_path / "corpus.db")


def test_the_ids_of_rows_are_those_of_their_passages(corpus):
    wanted = [2499, 0, 7, 7, *range(1500)]
    assert corpus.ids(wanted) == {i: PASSAGES[i].id for i in wanted}
    with pytest.raises(Missing, match="2500"):
        corpus.ids([3, 2500])
