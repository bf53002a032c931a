"""Matching gold paragraphs to the collection: by equal text, by shared words, or with the reason for no match."""

from __future__ import annotations

import random

import pytest

from blindspot.backend.text.gold_matching import (
    NO_ANSWER,
    NOTHING_LIKE_IT,
    TOO_SHORT,
    GoldParagraph,
    ParagraphMatch,
    containment,
    match_gold,
)
from blindspot.db.corpus import Corpus, CorpusWriter
from blindspot.db.records import Passage

WORDS = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in ("l", "n", "r", "s", "t", "ck")]


def text(rng: random.Random, length: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(length))


@pytest.fixture(scope="module")
def article():
    rng = random.Random(3)
    return text(rng, 400).split()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory, article):
    """Four blocks of an article, and 40 passages of other words."""
    rng, path = random.Random(4), tmp_path_factory.mktemp("corpus") / "corpus.db"
    blocks = [Passage(f"a{i}", "Article", " ".join(article[100 * i : 100 * i + 100])) for i in range(4)]
    others = [Passage(f"o{i}", f"Other {i}", text(rng, 100)) for i in range(40)]
    with CorpusWriter(path) as writer:
        writer.add([*others[:20], *blocks, *others[20:], Passage("twin", "Twin", blocks[3].text)])
        writer.finish()
    return Corpus(path)


def test_the_same_text_whatever_its_spaces_and_capitals(corpus, article):
    same = "  ".join(article[100:200]).upper()
    assert match_gold(corpus, [GoldParagraph("x", same)]) == [ParagraphMatch(21, 1.0, "same text")]


def test_of_the_same_texts_the_one_with_the_same_title_then_the_first(corpus, article):
    last = " ".join(article[300:])
    found = match_gold(corpus, [GoldParagraph(title, last) for title in ("twin", "Article", "?")])
    assert [one.ordinal for one in found] == [44, 23, 23]


def test_a_paragraph_over_two_blocks_is_the_block_that_holds_the_answer(corpus, article):
    paragraph = " ".join(article[60:180])  # 40 words of the first block, 80 of the second
    early, late = " ".join(article[70:73]), " ".join(article[150:153])
    found = match_gold(
        corpus,
        [
            GoldParagraph("", paragraph, (early,)),
            GoldParagraph("", paragraph, (late,)),
            GoldParagraph("", paragraph),
            GoldParagraph("", paragraph, ("zzz",)),
        ],
    )
    assert [(f.ordinal, f.how) for f in found] == [(20, "overlap"), (21, "overlap"), (21, "overlap"), (None, "none")]
    # 40 words have 36 shingles of 5; a block of 100 has 96.
    assert found[0].score == pytest.approx(36 / 96) and found[1].score == pytest.approx(76 / 96)
    assert found[3].reason == NO_ANSWER and found[3].score == found[1].score


def test_an_edited_paragraph_is_found_and_a_strange_one_is_not(corpus, article):
    edited = article[200:300]
    edited[10:12], edited[50] = ["ZZ"], "QQ"
    rng = random.Random(9)
    found = match_gold(
        corpus,
        [
            GoldParagraph("", " ".join(edited)),
            GoldParagraph("", text(rng, 90)),
            GoldParagraph("", "lone"),
            GoldParagraph("", ""),
        ],
    )
    assert found[0].ordinal == 22 and 0.8 < found[0].score < 1
    assert [f.reason for f in found[1:]] == [NOTHING_LIKE_IT, TOO_SHORT, TOO_SHORT]
    assert match_gold(corpus, []) == []


def test_what_is_chosen_is_what_comparing_with_every_passage_chooses(corpus, article):
    """The index over every fourth shingle loses nothing that shares eight words in a row."""
    rng, wanted = random.Random(5), []
    for _ in range(60):
        start, length = rng.randrange(0, 320), rng.randrange(30, 80)
        wanted.append(GoldParagraph("", " ".join([text(rng, 10), *article[start : start + length], text(rng, 10)])))
    passages = [p.text.split() for p in corpus.scan()]
    for one, found in zip(wanted, match_gold(corpus, wanted), strict=True):
        scores = [containment(one.text.split(), words) for words in passages]
        best = max(range(len(scores)), key=lambda i: (scores[i], -i))
        assert found == (
            ParagraphMatch(best, scores[best], "overlap")
            if scores[best] >= 0.3
            else ParagraphMatch(None, scores[best], "none", NOTHING_LIKE_IT)
        )


def test_progress_is_told_and_a_stop_comes_out(corpus):
    def stop(done, total, doing):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        match_gold(corpus, [GoldParagraph("", "a b c d e f")], progress=stop)
