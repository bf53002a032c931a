"""Answers in the hits of a whole run: each passage is read once."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blindspot.backend.text.answers import RULES, has_answer, match_run, rules, run
from blindspot.db.corpus import Corpus, CorpusWriter
from blindspot.db.errors import Missing
from blindspot.db.records import Passage, Question
from tests.plain_answers import AWKWARD, STRING_RULES, Texts, pieces, texts, texts_with_answers


@pytest.mark.parametrize("rule", RULES)
@settings(deadline=None)
@given(st.data())
def test_a_run_equals_one_passage_at_a_time(rule, data):
    collection = data.draw(st.lists(texts, min_size=1, max_size=8))
    asked = [
        Question(str(i), "?", answers=tuple(wanted), answer_rule=kind)
        for i, (wanted, kind) in enumerate(
            data.draw(
                st.lists(
                    st.tuples(st.lists(pieces, max_size=2), st.sampled_from(["string", "string", "regex"])), max_size=5
                )
            )
        )
    ]
    k = data.draw(st.integers(1, 5))
    row = st.lists(st.integers(-1, len(collection) - 1), min_size=k, max_size=k)
    ordinals = np.array([data.draw(row) for _ in asked], dtype=np.int32).reshape(len(asked), k)
    corpus = Texts(collection)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "BLOCK", 3)
        patch.setattr(run, "HITS_PER_BLOCK", 4)
        held = match_run(corpus, asked, ordinals, rule)
    assert held.shape == ordinals.shape and held.dtype == bool
    for (i, j), ordinal in np.ndenumerate(ordinals):
        used = "regex" if asked[i].answer_rule == "regex" else rule
        title = f"title {ordinal}"
        expected = ordinal >= 0 and has_answer(collection[ordinal], asked[i].answers, used, title)
        assert held[i, j] == expected


def test_each_distinct_passage_is_read_once_in_order_and_padding_never():
    corpus = Texts(["one two", "two three", "three four"])
    asked = [Question("a", "?", answers=("two",)), Question("b", "?", answers=("three",)), Question("c", "?")]
    held = match_run(corpus, asked, np.array([[2, 0, -1], [1, 0, 2], [0, 1, -1]]))
    assert held.tolist() == [[False, True, False], [True, False, True], [False, False, False]]
    assert corpus.read == [0, 1, 2]


def test_progress_is_told_and_may_cancel():
    corpus = Texts(["one"] * 10)
    asked, told = [Question("a", "?", answers=("one",))], []
    match_run(corpus, asked, np.arange(10).reshape(1, 10), progress=lambda *args: told.append(args))
    assert told[-1][:2] == (10, 10)

    def cancel(done, total, doing):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        match_run(corpus, asked, np.arange(10).reshape(1, 10), progress=cancel)


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="2 questions"):
        match_run(Texts(["a"]), [Question("a", "?"), Question("b", "?")], np.zeros((1, 3), dtype=np.int32))
    assert match_run(Texts([]), [], np.zeros((0, 5), dtype=np.int32)).shape == (0, 5)


# A collection on disk


@pytest.fixture(scope="module")
def awkward(tmp_path_factory):
    """(path of a corpus.db of 300 awkward texts, 60 questions, (60, 30) ordinals with padding), half of the answers cut
    from a text."""
    seeded = random.Random(7)

    def text(longest):
        return "".join(seeded.choice(AWKWARD.replace("\x00", "")) for _ in range(seeded.randrange(longest)))

    passages = [Passage(str(i), text(8), text(80)) for i in range(300)]
    asked = []
    for i in range(60):
        source = seeded.choice(passages).text
        start = seeded.randrange(len(source) + 1)
        wanted = tuple(
            seeded.choice([text(4), source[start : start + seeded.randrange(1, 6)]]) for _ in range(seeded.randrange(4))
        )
        asked.append(Question(str(i), "?", answers=wanted, answer_rule=seeded.choice(["string", "string", "regex"])))
    path = tmp_path_factory.mktemp("awkward") / "corpus.db"
    with CorpusWriter(path) as writer:
        writer.add(passages)
        writer.finish()
    return path, asked, np.random.default_rng(7).integers(-1, 300, (60, 30)).astype(np.int32)


@pytest.mark.parametrize("rule", RULES)
def test_a_collection_on_disk_gives_what_one_passage_at_a_time_gives(awkward, rule, monkeypatch):
    monkeypatch.setattr(run, "BLOCK", 7)
    monkeypatch.setattr(run, "HITS_PER_BLOCK", 20)
    monkeypatch.setattr(run, "HITS_AT_ONCE", 500)
    path, asked, ordinals = awkward
    corpus = Corpus(path)
    held = match_run(corpus, asked, ordinals, rule)
    for (i, j), ordinal in np.ndenumerate(ordinals):
        passage = corpus.passage(ordinal) if ordinal >= 0 else None
        expected = passage and has_answer(passage.text, asked[i].answers, rules.rule_for(asked[i], rule), passage.title)
        assert held[i, j] == bool(expected)
    assert 50 < held.sum() < held.size / 2


@settings(max_examples=5, deadline=None)
@given(st.lists(texts_with_answers(), min_size=1, max_size=20), st.sampled_from(STRING_RULES))
def test_every_text_is_matched_with_the_answers_of_its_own_question(cases, rule):
    cases = [(text.replace("\0", " "), wanted) for text, wanted in cases]
    asked = [Question(str(i), "?", answers=tuple(wanted)) for i, (_, wanted) in enumerate(cases)]
    with tempfile.TemporaryDirectory() as folder, CorpusWriter(Path(folder) / "corpus.db") as writer:
        writer.add(Passage(str(i), "title", text) for i, (text, _) in enumerate(cases))
        writer.finish()
        ordinals = np.tile(np.arange(len(cases)), (len(cases), 1))
        held = match_run(Corpus(writer.path), asked, ordinals, rule)
    assert [bool(held[i, i]) for i in range(len(cases))] == [
        has_answer(text, wanted, rule, "title") for text, wanted in cases
    ]


def test_an_ordinal_outside_the_collection(awkward):
    path, asked, _ = awkward
    with pytest.raises(Missing, match="no passage number 300"):
        match_run(Corpus(path), asked[:1], np.array([[0, 300]]))
