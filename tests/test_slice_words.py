"""What slices and relations say of questions, and nested slices merged."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from blindspot.analysis.accuracy import Estimate
from blindspot.analysis.buckets import GROUPS
from blindspot.app.components.slice_tables import spoken_table
from blindspot.app.components.strips import difference_strip, strip_head, widest_difference
from blindspot.backend.core.runs import write_run
from blindspot.backend.evaluation.comparison import Comparison, by_group, measure
from blindspot.backend.evaluation.measures import SUCCESS
from blindspot.backend.evaluation.panel_words import (
    clearest_sentence,
    frequency_sentence,
    relations_sentence,
    small_groups_sentence,
)
from blindspot.backend.evaluation.slice_finder import find_slices
from blindspot.backend.evaluation.slice_words import in_words, merge_nested, part_of, slice_sentence
from blindspot.backend.evaluation.slices import Facts
from blindspot.db.records import Hits, Passage, Question
from tests.studies import make_study


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ('group:"<=1 mentions"', "where the subject is mentioned once at most"),
        ("relation:P19 and length>=6 and length<=7", "that ask for place of birth (P19) and of 6 to 7 words"),
        ("relation:P19 and first(minilm-dev)>5", "that ask for place of birth (P19) and that minilm-dev misses in the top 5"),
        ("first(bm25)<=20", "that bm25 finds in the top 20"),
        ("answer_length=1", "whose answer has 1 word"),
        ("length>=11", "of 11 or more words"),
        ("overlap>=0.5 and overlap<1", "with half or more, but not all, of their words in the gold passage"),
        ("overlap=1 and not answer_in_title",
         "with all their words in the gold passage and without the answer in a gold passage's title"),
        ("first(a)<=5 or relation:P19", "with first(a)<=5 or relation:P19"),
    ],
)  # fmt: skip
def test_an_expression_in_words(expression, words):
    assert in_words(expression) == words


def test_the_planted_slice_is_said_and_its_parts_are_nested(tmp_path):
    """A finds all of one relation and nothing else; B finds nothing. A pair of conditions within it is no second finding."""
    texts = [f"Where is it {'x ' * (i % 3)}?" for i in range(160)]
    questions = [
        Question(f"q{i}", text, ("A",), "P19" if i < 60 else "P20", f"s{i}", dataset="d", split="dev")
        for i, text in enumerate(texts)
    ]
    study = make_study(tmp_path / "s", [Passage("hit", "t", "A here"), Passage("miss", "t", "nothing")], questions)
    for name, found in (("a", np.arange(160) < 60), ("b", np.zeros(160, dtype=bool))):
        rows = np.where(found, 0, 1).astype(np.int32)[:, None]  # only the first passage holds the answer
        hits = Hits(rows, np.ones((160, 1), dtype=np.float32))
        write_run(study, name, [each.id for each in questions], hits, {"retriever": name})
    facts = Facts(Comparison.of_runs(measure(study, "a"), measure(study, "b")), 1)
    (head, nested), *others = merge_nested(found := find_slices(facts), facts)
    assert {head.expression, *(each.expression for each in nested)} & {"relation:P19", "relation:P20"}
    assert not [each for each, _ in others if "P19" in each.expression and "P19" in head.expression]
    parts = [part_of(each, found.n) for each, _ in [(head, nested), *others]]
    assert parts == sorted(parts)
    whole = by_group(facts.comparison, 1, {"": np.arange(160)})[""]
    made = spoken_table([(head, nested), *others], {}, whole, str)
    assert made.count('scope="rowgroup"') == (len(set(parts)) if len(set(parts)) > 1 else 0)
    n = 'data-n="n 60"' if "P19" in head.expression else 'data-n="n 100"'
    assert made.index('data-n="n 160"') < made.index(n) < made.index(f'title="{head.expression}"')
    twice = spoken_table([(head, nested), (head, [])], {}, whole, str)
    assert "rowgroup" not in twice and "moves it by +" in twice, "one part needs no name"
    sentence = slice_sentence(head, ("one", "two"))
    lead, count = ("100.0 points", "60 questions") if "P19" in head.expression else ("level", "100 questions")
    assert lead in sentence and count in sentence


def test_the_list_has_small_slices_first_and_those_without_an_established_lead_last():
    def slice_of(n, value, low, high):
        difference = SimpleNamespace(estimate=SimpleNamespace(value=value, low=low, high=high))
        return SimpleNamespace(figures=SimpleNamespace(n=n, difference=difference))

    assert part_of(slice_of(50, 0.2, 0.1, 0.3), 100) == 0 and part_of(slice_of(51, -0.2, -0.3, -0.1), 100) == 1
    assert (
        {part_of(slice_of(n, 0.1, -0.1, 0.3), 100) for n in (50, 51)} == {2} == {part_of(slice_of(9, 0.0, 0, 0), 100)}
    )


@pytest.mark.parametrize(
    ("here", "first", "lead", "interval"),
    [
        ((0.449, 0.319, 0.566), "A", "44.9", "(95%: 31.9 to 56.6)"),
        ((-0.06, -0.1, -0.02), "B", "6.0", "(95%: 2.0 to 10.0)"),
        ((-0.0001, -0.03, 0.01), "A", "level", "(95%: −1.0 to 3.0)"),
    ],
)
def test_a_title_says_who_is_ahead_in_a_slice(here, first, lead, interval):
    difference = SimpleNamespace(estimate=Estimate(here[0], 84, *here[1:], "t"))
    figures = SimpleNamespace(n=84, k=5, measure=SUCCESS, difference=difference)
    found = SimpleNamespace(figures=figures, expression="relation:P1")
    sentence = slice_sentence(found, ("A", "B"))
    assert sentence.startswith(first) and sentence.endswith(interval)
    assert all(each in sentence for each in (lead, "top 5", "84 questions", "P1"))


def test_the_relation_that_is_named_has_enough_facts():
    """A large difference in a few facts is left to the table; with few facts everywhere the largest one is named."""

    def said(units, p=0.01, sign=1, words=relations_sentence, whole=None):
        gains = {"P19": sign * 0.7, "P50": sign * 0.3}
        differences = {
            name: SimpleNamespace(
                difference=SimpleNamespace(p=p, p_shown=p, estimate=Estimate(gain, 30, gain - 0.1, gain + 0.1, "t"))
            )
            for name, gain in gains.items()
        }
        rows = [SimpleNamespace(group=name, units=count) for name, count in zip(gains, units, strict=True)]
        table = SimpleNamespace(differences=differences, rows=rows, k=5, measure=SUCCESS, unit="fact", whole=whole)
        return words(table, ("one", "two"))

    birth, author = "(P19), by 70.0 points (95%: 60.0 to 80.0).", "(P50), by 30.0 points (95%: 20.0 to 40.0)."
    assert said((29, 30)).endswith(author) and "1 of 1 relation" in said((29, 30))
    assert said((30, 30)).endswith(birth) and said((2, 3)).endswith(birth)
    assert "none" in said((29, 30), p=0.2) and "2 of 2 relations" in said((29, 30), p=0.2)
    assert said((29, 30), p=0.2).startswith("one") and said((29, 30), p=0.2, sign=-1).startswith("two")
    difference = SimpleNamespace(p_shown=0.01, estimate=Estimate(-0.2, 59, -0.3, -0.1, "t"))
    lead = SimpleNamespace(k=5, measure=SUCCESS, difference=difference)
    whole = said((29, 30), p=0.2, whole=lead)
    assert whole.startswith("two is 20.0 points ahead") and "(95%: 10.0 to 30.0); in none of 2" in whole
    lead.difference.p_shown = 0.2
    assert said((29, 30), p=0.2, whole=lead).startswith("one")
    assert "(P19), one +70.0 (95%: 60.0 to 80.0)" in said((29, 30), p=0.2, words=clearest_sentence)
    assert said((29, 30), words=clearest_sentence) == "", "the heading says it"
    assert "all 2 relations" in said((30, 30), sign=-1), "seen from the better run"
    assert said((30, 30), sign=-1).endswith(birth)


def test_a_slice_is_drawn_with_its_interval_and_the_difference_elsewhere():
    one = Estimate(0.4, 84, 0.2, 0.52, "t")
    assert widest_difference([one, Estimate(-0.1, 84, -0.3, 0.1, "t")]) == 60
    html = difference_strip(one, 60, -10.0)
    assert 'title="A − B, points: +40.0 (+20.0 to +52.0), −10.0 elsewhere"' in html
    assert 'class="dot a" style="left:83.3%"' in html and 'style="left:66.7%;width:26.7%"' in html
    assert 'class="rest" style="left:41.7%"' in html and 'class="rest"' not in difference_strip(one, 60)
    assert '"dot b"' in difference_strip(Estimate(-0.2, 84, -0.3, -0.1, "t"), 60)
    assert '"dot b pale"' in difference_strip(Estimate(-0.1, 84, -0.3, 0.1, "t"), 60), "no lead where it has 0"
    assert '"dot level pale"' in difference_strip(Estimate(0.0, 84, -0.1, 0.1, "t"), 60)
    assert '"dot a pale"' in difference_strip(one, 60, is_pale=True), "as the figure of its row"
    assert difference_strip(Estimate(0.4, 84, None, None, "t"), 60) == ""
    assert "<span>−60</span><span>0</span><span>+60</span>" in strip_head(60)


def frequency_words(*figures, cut="mentions", words=frequency_sentence):
    """The title, or another sentence, over groups of (points, low, high, p, units)."""
    groups = {
        bucket: SimpleNamespace(
            units=units,
            difference=SimpleNamespace(p_shown=p, p_adjusted=p, estimate=SimpleNamespace(value=v, low=low, high=high)),
        )
        for bucket, (v, low, high, p, units) in enumerate(figures)
    }
    said = {"k": 5, "measure": SUCCESS, "cut": cut, "title": "Success@5", "unit": "fact", "label": GROUPS.__getitem__}
    curves = SimpleNamespace(differences={"all": groups}, series={"all": {}}, **said)
    return words(curves, ("one", "two"))


def test_leads_in_small_groups_are_named_as_indicative():
    lead, small, back = (0.45, 0.3, 0.6, 0.001, 69), (0.385, 0.209, 0.573, 1, 26), (-0.227, -0.427, -0.056, 1, 22)
    indicative = frequency_words(lead, small, back, words=small_groups_sentence)
    assert "one +38.5 (95%: 20.9 to 57.3), p 1.000 (Holm)" in indicative
    assert "two +22.7 (95%: 5.6 to 42.7), p 1.000 (Holm)" in indicative
    level = (0.1, -0.1, 0.3, 1, 22)
    assert frequency_words(lead, level, words=small_groups_sentence) == "", "their intervals include 0"


def test_the_title_by_frequency_says_where_a_lead_is_established_and_where_none_is():
    leads, none, behind = (0.45, 0.3, 0.6, 0.001, 69), (0.0, -0.1, 0.1, 1.0, 60), (-0.2, -0.3, -0.1, 0.001, 60)
    for figures, where in (((leads, leads, none, none), "from 4 mentions"), ((leads, none), "2 or 3 times")):
        title = frequency_words(*figures)
        assert all(each in title for each in ("one leads by 45.0 points", "(95%: 30.0 to 60.0)", "no lead", where))
    assert "no lead" not in frequency_words(leads, leads)
    assert "points" not in frequency_words(none, none), "no lead is established"
    assert "points" not in frequency_words((0.45, 0.3, 0.6, 0.001, 29)), "too few facts"
    both = frequency_words(behind, none, leads, cut="official")
    assert "one leads by 45.0 points" in both and "group 2 (95%: 30.0 to 60.0)" in both
    assert "two leads by 20.0 points" in both and "group 0 (95%: 10.0 to 30.0)" in both
