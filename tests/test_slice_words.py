"""What slices and relations say of questions, and nested slices merged."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest

from blindspot.analysis.accuracy import Estimate
from blindspot.app.components.slice_tables import difference_strip, widest_difference
from blindspot.backend.core.runs import write_run
from blindspot.backend.evaluation.comparison import Comparison, measure
from blindspot.backend.evaluation.measures import SUCCESS
from blindspot.backend.evaluation.panel_words import relations_sentence
from blindspot.backend.evaluation.slice_finder import find_slices
from blindspot.backend.evaluation.slice_words import in_words, merge_nested, sentence
from blindspot.backend.evaluation.slices import Facts
from blindspot.db.records import Hits, Passage, Question
from tests.studies import make_study


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ('group:"<=1 mentions"', "where the subject is mentioned once at most"),
        ("relation:P19 and length>=6 and length<=7", "that ask for place of birth (P19) and of 6 to 7 words"),
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
    questions = [
        Question(
            f"q{i}",
            f"Where is it {'x ' * (i % 3)}?",
            ("A",),
            "P19" if i < 60 else "P20",
            f"s{i}",
            dataset="d",
            split="dev",
        )
        for i in range(160)
    ]
    study = make_study(tmp_path / "s", [Passage("hit", "t", "A here"), Passage("miss", "t", "nothing")], questions)
    for name, found in (("a", np.arange(160) < 60), ("b", np.zeros(160, dtype=bool))):
        rows = np.where(found, 0, 1).astype(np.int32)[
            :, None
        ]  # the first passage holds the answer, the second does not
        hits = Hits(rows, np.ones((160, 1), dtype=np.float32))
        write_run(study, name, [each.id for each in questions], hits, {"retriever": name})
    facts = Facts(Comparison.of_runs(measure(study, "a"), measure(study, "b")), 1)
    (head, nested), *others = merge_nested(find_slices(facts), facts)
    assert {head.expression, *(each.expression for each in nested)} & {"relation:P19", "relation:P20"}
    assert not [each for each, _ in others if "P19" in each.expression and "P19" in head.expression]
    assert sentence(head, ("one", "two")).startswith(
        (
            "one is 100.0 points ahead on 60 questions that ask for place of birth",
            "one and two are level on 100 questions that ask for place of death",
        )
    )


@pytest.mark.parametrize(
    ("here", "outside", "words"),
    [
        (0.449, 0.016, "A is 44.9 points ahead on 84 questions of relation P1; elsewhere 1.6 ahead."),
        (-0.06, 0.196, "B is 6.0 points ahead on 84 questions of relation P1; elsewhere 19.6 behind."),
        (0.2, 0.0, "A is 20.0 points ahead on 84 questions of relation P1; elsewhere level."),
        (-0.0001, 0.209, "A and B are level on 84 questions of relation P1; elsewhere A is 20.9 ahead."),
        (0.0, -0.1, "A and B are level on 84 questions of relation P1; elsewhere B is 10.0 ahead."),
    ],
)
def test_a_sentence_says_who_is_ahead_there_and_elsewhere(here, outside, words):
    figures = SimpleNamespace(n=84, difference=SimpleNamespace(estimate=SimpleNamespace(value=here)))
    found = SimpleNamespace(figures=figures, outside=outside, expression="relation:P1")
    assert sentence(found, ("A", "B")) == words
    titled = sentence(found, ("A", "B"), 5)
    assert titled == re.sub(
        "([AB]) (.+?) ahead on",
        r"\1 \2 ahead of other in the top 5 on",
        words.replace("level on", "level in the top 5 on"),
    ).replace("other", "B" if here > 0 else "A")


def test_the_relation_that_is_named_has_enough_facts():
    """A large difference in a few facts is left to the table; with few facts everywhere the largest one is named."""

    def said(units, p=0.01, sign=1, names=("one", "two")):
        gains = {"P19": sign * 0.7, "P50": sign * 0.3}
        differences = {
            name: SimpleNamespace(
                difference=SimpleNamespace(
                    p_shown=p, estimate=SimpleNamespace(value=gain, low=gain - 0.1, high=gain + 0.1)
                )
            )
            for name, gain in gains.items()
        }
        rows = [SimpleNamespace(group=name, units=count) for name, count in zip(gains, units, strict=True)]
        return relations_sentence(SimpleNamespace(differences=differences, rows=rows, k=5, measure=SUCCESS), names)

    assert said((29, 30)) == (
        "one is better than two in 2 of 2 relations in the top 5; most on author (P50), by 30.0 points (95%: 20.0 to 40.0)."
    )
    assert said((30, 30)).endswith("; most on place of birth (P19), by 70.0 points (95%: 60.0 to 80.0).")
    assert said((2, 3)).endswith("; most on place of birth (P19), by 70.0 points (95%: 60.0 to 80.0).")
    assert said((29, 30), p=0.2) == (
        "No relation alone shows which run is better in the top 5: one is furthest ahead on author (P50), by 30.0 points "
        "(95%: 20.0 to 40.0), but this may be chance."
    )
    assert said((30, 30), sign=-1).startswith("two is better than one in 2 of 2 relations"), "seen from the better run"
    assert said((30, 30), sign=-1).endswith("; most on place of birth (P19), by 70.0 points (95%: 60.0 to 80.0).")


def test_a_slice_is_drawn_with_its_interval_and_the_difference_elsewhere():
    def found(value, low, high, outside):
        estimate = Estimate(value, 84, low, high, "t")
        return SimpleNamespace(figures=SimpleNamespace(difference=SimpleNamespace(estimate=estimate)), outside=outside)

    one = found(0.4, 0.2, 0.52, -0.1)
    assert widest_difference([one, found(-0.1, -0.3, 0.1, 0.0)]) == 60
    html = difference_strip(one, 60)
    assert 'title="A − B, points: +40.0 (+20.0 to +52.0) here, −10.0 elsewhere"' in html
    assert 'class="dot a" style="left:83.3%"' in html and 'style="left:66.7%;width:26.7%"' in html
    assert 'class="rest" style="left:41.7%"' in html and "dot b" in difference_strip(found(-0.1, -0.3, 0.1, 0.0), 60)
    assert difference_strip(found(0.4, None, None, 0.0), 60) == ""
