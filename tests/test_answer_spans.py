"""Where in a text an answer or a word of the question is."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings

from blindspot.backend.text.answers import answer_spans, has_answer, near_name_spans, query_spans, rules
from blindspot.backend.text.spans import Normalised, merge_spans
from tests.plain_answers import STRING_RULES, texts, texts_with_answers


@settings(deadline=None)
@given(texts)
def test_decomposing_character_by_character_is_nfd(text):
    normalised = Normalised.nfd(text)
    assert normalised.text == unicodedata.normalize("NFD", text)
    if normalised.source is not None:
        assert sorted(set(normalised.source)) == list(range(len(text)))


@pytest.mark.parametrize("rule", STRING_RULES)
@settings(deadline=None)
@given(texts_with_answers())
def test_spans_are_where_the_answer_is(rule, case):
    text, wanted = case
    spans = answer_spans(text, wanted, rule)
    assert bool(spans) == has_answer(text, wanted, rule)
    assert spans == sorted(spans) and all(a[1] <= b[0] for a, b in zip(spans, spans[1:], strict=False))
    for start, end in spans:
        assert 0 <= start < end <= len(text)
        assert has_answer(text[start:end], wanted, rule)


def test_spans_speak_of_the_original_text():
    text = unicodedata.normalize("NFC", "Früh in Zürich, später Zu\u0308rich und ZÜRICH")
    assert [text[a:b] for a, b in answer_spans(text, ["zürich"])] == ["Zürich", "Zürich", "ZÜRICH"]
    mixed = "Café in Zu\u0308rich"
    assert [mixed[a:b] for a, b in answer_spans(mixed, ["Zürich", "café"])] == ["Café", "Zu\u0308rich"]
    reordered = "xe\u0301\u0323x e\u0301\u0323 y"  # NFD puts the dot below before the acute
    assert answer_spans(reordered, ["e\u0323\u0301"]) == [(6, 9)]
    assert answer_spans("New  York, new york", ["New York"]) == [(0, 9), (11, 19)]
    assert answer_spans("the New Yorker", ["NewYork"], "rocketqa_mining") == [(4, 12)]
    assert answer_spans("Iİ NEW york.", ["new york", "i\u0307n"], "rocketqa_mining") == [(1, 11)]
    assert answer_spans("in 1912 and 1913", [r"\d{4}", r"x*"], "regex") == [(3, 7), (12, 16)]


def test_overlapping_answers_are_one_span():
    assert answer_spans("New York City", ["New York", "York City"]) == [(0, 13)]
    assert merge_spans([(5, 7), (0, 3), (2, 4), (5, 7), (7, 9)]) == [(0, 4), (5, 7), (7, 9)]


def test_query_words_without_stop_words():
    text = "Where Ada Lovelace was born: ADA's birthplace, London"
    assert [text[a:b] for a, b in query_spans(text, "Where was Ada Lovelace born?")] == [
        "Ada",
        "Lovelace",
        "born",
        "ADA",
    ]
    assert query_spans("was it?", "Where was it?") == []


def test_names_that_look_like_the_subjects_are_found():
    text = "Selangbury lies by Selingbury and Selinburg; the selingbery of Newmann and Seligman."
    assert [text[a:b] for a, b in near_name_spans(text, "Selingbury Newman")] == ["Selangbury", "Selinburg", "Newmann"]
    assert near_name_spans("Osla and Oslo", "Oslo") == [], "short names look like too many words"
    assert near_name_spans(text, "") == []


@settings(deadline=None)
@given(texts, texts)
def test_query_spans_stay_inside_the_text(text, question):
    for start, end in query_spans(text, question):
        assert 0 <= start < end <= len(text)


def test_a_text_is_tokenised_once_for_its_answers_and_its_question_words():
    text = "Oslo is a harbour. " * 20
    before = rules._cached_words.cache_info().misses
    for rule in ("dpr", "entityquestions"):
        assert answer_spans(text, ["Oslo"], rule)[0] == (0, 4)
    assert query_spans(text, "Where is the harbour?")[0] == (10, 17)
    assert rules._cached_words.cache_info().misses == before + 1
