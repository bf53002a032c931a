"""Answer matching, compared with a slow re-implementation of each rule from its description."""

from __future__ import annotations

import csv
import json
import lzma
import random
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from blindspot.backend.text import answers
from blindspot.backend.text.answers import RULES, answer_spans, has_answer, has_tokens, match_run, rules
from blindspot.db.corpus import CorpusWriter
from blindspot.db.errors import Missing
from blindspot.db.records import Question
from tests.plain_answers import STRING_RULES, Texts, pieces, plain, plain_tokens, rocketqa, texts, texts_with_answers

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("rule", STRING_RULES)
@settings(deadline=None)
@given(texts_with_answers(), pieces)
@example(("ΟΔΟΣ'Α", ["οδος"]), "")
@example(("İstanbul", ["i\u0307stanbul"]), "")
@example(("a\x1cb", ["a b"]), "")
def test_equals_the_plain_rule(rule, case, title):
    text, wanted = case
    assert has_answer(text, wanted, rule, title) == plain(text, wanted, rule, title)


@pytest.mark.parametrize("many", [0, 1000])
@pytest.mark.parametrize("rule", ["dpr", "entityquestions"])
@settings(deadline=None)
@given(texts_with_answers())
def test_few_and_many_answers_are_looked_for_alike(rule, many, case):
    text, wanted = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rules, "MANY_ANSWERS", many)
        assert has_answer(text, wanted, rule) == plain(text, wanted, rule)


@settings(deadline=None)
@given(texts)
def test_tokens_equal_the_plain_tokens_on_ascii_and_beyond(text):
    for form in (text, unicodedata.normalize("NFD", text), text.encode("ascii", "ignore").decode()):
        assert [token.lower() for token in answers.tokens(form)] == plain_tokens(form)
        assert answers.spaced_tokens(form).split() == plain_tokens(form)


def test_every_ascii_character_is_the_same_to_both_patterns():
    for code in range(128):
        char = chr(code)
        assert rules.ASCII_TOKEN.findall(char) == rules.TOKEN.findall(char)


def test_folding_sees_no_difference_that_lower_casing_takes_away():
    """The assumption of the probe holds for every character."""
    chars = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    assert all(char.lower().casefold() == char.casefold() for char in chars)


# Cases worked by hand


@pytest.mark.parametrize(
    ("text", "answer", "held"),
    [
        ("He was born in New York City.", "new york", True),
        ("He was born in New York City.", "york new", False),
        ("He was born in New\nYork.", "New York", True),
        ("Yorkshire", "York", False),
        ("It cost $5.50.", "$5.50", True),
        ("It cost 5 50.", "5.50", False),
        ("The U.S. team", "U.S.", True),
        ("The US team", "U.S.", False),
        ("Rock-and-roll", "rock and roll", False),
        ("O'Brien", "O’Brien", False),
    ],
)
def test_dpr_by_hand(text, answer, held):
    assert has_answer(text, [answer]) is held


@pytest.mark.parametrize("empty", ["", " ", "\n\t", "\x00", "\u200b"])
@pytest.mark.parametrize("rule", RULES)
def test_regression_an_answer_without_tokens_matches_nothing(rule, empty):
    assert not has_answer("any text at all", [empty], rule, title="any title")
    assert answer_spans("any text at all", [empty], rule) == []
    assert rule == "regex" or not has_tokens(empty)


def test_regression_composed_text_is_found_by_dpr_and_missed_by_entityquestions():
    composed = unicodedata.normalize("NFC", "in Zürich itself")
    decomposed = unicodedata.normalize("NFD", composed)
    assert composed != decomposed
    for answer in ("Zürich", unicodedata.normalize("NFD", "Zürich")):
        assert has_answer(composed, [answer]) and has_answer(decomposed, [answer])
        assert not has_answer(composed, [answer], "entityquestions")
        assert has_answer(decomposed, [answer], "entityquestions")


def test_only_rocketqa_mining_searches_the_title_and_inside_words():
    for rule in RULES:
        assert has_answer("a city", ["Paris"], rule, title="Paris") is (rule == "rocketqa_mining")
        assert has_answer("Parisian", ["Paris"], rule) is (rule in ("rocketqa_mining", "regex"))
    assert has_answer("the NewYorker", ["New York"], "rocketqa_mining")
    assert not has_answer("New", ["New York"], "rocketqa_mining", title="York")


@pytest.mark.parametrize(
    ("text", "answer", "held"),
    [
        ("she lives in PARIS", "paris", True),  # case does not count
        ("in the U.S. Navy", "u.s.", True),  # the full stops at the ends of an answer do not count
        ("the U.S today", "U.S.", True),
        ("the US today", "U.S.", False),  # those inside it do
        ("born in 1912", ". 1912 .", True),
        ("anything at all.", "...", False),  # an answer of full stops only never matches
        ("in Zürich", "Zurich", False),
        ("a New\nYork b", "New York", True),
        ("a New\u00a0York b", "New York", False),
    ],
)
def test_rocketqa_counts_neither_case_nor_outer_full_stops(text, answer, held):
    assert has_answer(text, [answer], "rocketqa_mining") is held
    assert bool(answer_spans(text, [answer], "rocketqa_mining")) is held


@pytest.mark.slow
def test_rocketqa_on_real_pairs(real_data):
    """100,000 pairs: each question with its gold, with passages of the same article, and with random passages."""
    with lzma.open(real_data / "passages_100k.tsv.xz", "rt", encoding="utf-8", newline="") as file:
        next(file)
        passages = list(csv.reader(file, delimiter="\t"))
    with lzma.open(real_data / "questions.jsonl.xz", "rt", encoding="utf-8") as file:
        asked = [json.loads(line) for line in file]
    rows, articles = {row[0]: number for number, row in enumerate(passages)}, {}
    for number, row in enumerate(passages):
        articles.setdefault(row[2], []).append(number)
    draw, pairs = random.Random(0), []
    for question in asked:
        gold = [rows[id] for id in question["gold"] if id in rows]
        beside = [number for each in gold[:2] for number in articles[passages[each][2]][:3]]
        chosen = dict.fromkeys([*gold[:4], *beside, *(draw.randrange(len(passages)) for _ in range(5))])
        pairs += [(number, tuple(question["answers"])) for number in chosen]
    # Answers that end in a full stop ("Warner Bros."), with passages that write them without it.
    dotted = {question["answers"][0] for question in asked if question["answers"][0].endswith(".")}
    for answer in sorted(dotted)[:30]:
        bare = answer.strip(".")
        pairs += [(n, (answer,)) for n, row in enumerate(passages) if bare in row[1] and answer not in row[1]][:50]
    pairs = [*draw.sample(pairs, 99_000), *pairs[-1000:]]
    held = differ_by_case = differ_by_stop = 0
    for number, wanted in pairs:
        _, text, title = passages[number]
        expected = rocketqa(text, wanted, title)
        assert has_answer(text, wanted, "rocketqa_mining", title) == expected, (number, wanted)
        if expected:
            held += 1
            bare = "".join(text.split()) + "\n" + "".join(title.split())
            differ_by_case += not any("".join(answer.split()).strip(".") in bare for answer in wanted)
            differ_by_stop += not any("".join(answer.split()).lower() in bare.lower() for answer in wanted)
    assert held > 10_000 and differ_by_case > 100 and differ_by_stop > 10


def test_the_table_in_the_docs_is_what_the_rules_say():
    lines = (ROOT / "docs" / "answers.md").read_text(encoding="utf-8").partition("## Where they differ")[2].splitlines()
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    named = [name.strip("`") for name in head[3:]]
    assert sorted(named) == sorted(RULES) and len(rows) > 6
    for text, title, answer, *said in rows:
        assert said == ["yes" if has_answer(text, [answer], rule, title) else "no" for rule in named], text
    assert all(len({row[3 + i] for row in rows}) == 2 for i in range(len(named)))


def test_a_matrix_of_the_rule_before_is_matched_again(tmp_path):
    from blindspot.backend.core.runs import answer_matrix, write_run
    from blindspot.backend.core.study import Study
    from blindspot.db.records import Hits

    study = Study.create(tmp_path / "study", "s")
    with CorpusWriter(study.folder / "corpus.db") as writer:
        writer.add_rows([("1", "", "she lives in PARIS"), ("2", "", "she lives in Rome")])
        writer.finish("test", "0")
    study.questions.add([Question("q", "Where?", ("Paris",), dataset="d", split="dev")])
    hits = Hits(np.array([[0, 1]], np.int32), np.array([[2, 1]], np.float32))
    made = write_run(study, "r", ["q"], hits, {"rule": "rocketqa_mining"}, rule="rocketqa_mining")
    assert made.rules == ["rocketqa_mining"] and made.answers("rocketqa_mining").tolist() == [[True, False]]
    # The previous version stored its matrix under this name and was case-sensitive.
    next(made.folder.glob("answers.*")).unlink()
    np.save(made.folder / "answers.rocketqa_mining.npy", np.array([[False, False]]))
    opened = study.run("r")
    with pytest.raises(Missing):
        opened.answers("rocketqa_mining")
    assert answer_matrix(study, opened).tolist() == [[True, False]]


def test_an_unknown_rule_is_refused_by_name():
    with pytest.raises(Missing, match="'exact'.*dpr"):
        has_answer("text", ["answer"], "exact")


# Patterns


@pytest.mark.parametrize(
    ("pattern", "held"),
    [(r"19\d\d", True), ("ZÜRICH", True), (r"^second", True), (r"\d{5}", False), ("(", False), ("*", False)],
)
def test_patterns(pattern, held):
    text = "Founded 1912 in " + unicodedata.normalize("NFC", "Zürich") + "\nsecond line"
    assert has_answer(text, [pattern], "regex") is held


def test_a_broken_pattern_does_not_stand_in_the_way_of_a_sound_one():
    assert has_answer("in 1912", ["(", r"\d+"], "regex")


def test_a_pattern_that_runs_away_is_given_up_for_the_run(monkeypatch, caplog):
    monkeypatch.setattr(rules, "PATTERN_SECONDS", 0.05)
    question = Question("q", "?", answers=("(a|a|aa)+c",), answer_rule="regex")
    corpus = Texts(["a" * 200 + "b"] * 500)
    assert not match_run(corpus, [question], np.arange(500).reshape(1, 500)).any()
    assert len(caplog.records) == 1 and "ignored from now on" in caplog.text


@pytest.mark.parametrize("pattern", ["((a{999}){999}){999}", "a{9999999}", "(?R)b", "(" * 5000 + ")" * 5000, "[[:"])
def test_patterns_that_would_eat_memory_or_stack_match_nothing(pattern):
    assert not has_answer("a" * 100, [pattern], "regex")


@settings(deadline=None)
@given(st.text("()[]{}*+?|^$\\.,-<>=!pPL1ab é", max_size=12))
def test_no_pattern_raises(pattern):
    assert has_answer("hello ab 11", [pattern], "regex") in (True, False)


# A whole run


# Spans
