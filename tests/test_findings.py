"""Findings in sentences, on runs whose figures are known by hand."""

import re

import numpy as np
import pytest
from statsmodels.stats.proportion import confint_proportions_2indep

from blindspot.analysis.accuracy import proportion
from blindspot.analysis.significance import independent_difference
from blindspot.backend.core.runs import write_run
from blindspot.backend.evaluation.comparison import Comparison, measure
from blindspot.backend.evaluation.findings import bucket_words, findings, frequency_points
from blindspot.db.records import Hits, Passage, Question
from tests.studies import make_study

FILLERS = 12


@pytest.mark.parametrize("counts", [(36, 40, 10, 40), (5, 7, 6, 9), (0, 30, 30, 30), (99, 100, 98, 100)])
def test_the_interval_of_two_shares_is_statsmodels_newcombe(counts):
    first, n_first, second, n_second = counts
    a, b = (proportion(np.arange(n) < found) for found, n in ((first, n_first), (second, n_second)))
    ours = independent_difference(a, b)
    assert (ours.low, ours.high) == pytest.approx(confint_proportions_2indep(*counts, method="newcomb"), abs=1e-12)
    assert ours.value == pytest.approx(first / n_first - second / n_second) and ours.n == n_first + n_second


def study_of(folder, groups):
    """A study with runs `lexical` and `vectors`; groups: (frequency, questions, found by lexical, found by vectors)."""
    questions, found = [], []
    for frequency, count, lexical, vectors in groups:
        for number in range(count):
            id = f"q{len(questions)}"
            about = {"frequency": frequency, "dataset": "toy", "split": "dev"}
            questions.append(Question(id, f"Where is {id}?", (f"Ansver{id}",), "P19", id, **about))
            found.append((number < lexical, number >= count - vectors))
    passages = [Passage(q.id, q.subject, f"It is in {q.answers[0]}.") for q in questions]
    passages += [Passage(f"filler{i}", f"Filler {i}", "Nothing.") for i in range(FILLERS)]
    study = make_study(folder, passages, questions)
    for side, (name, retriever) in enumerate((("lexical", "bm25"), ("vectors", "tiny"))):
        ordinals = np.tile(np.arange(len(questions), len(questions) + 5, dtype=np.int32), (len(questions), 1))
        for row, hits in enumerate(found):
            if hits[side]:
                ordinals[row, 0] = row
        scores = np.tile(np.linspace(9, 5, 5, dtype=np.float32), (len(questions), 1))
        about = {"retriever": retriever, "kind": "run" if retriever == "bm25" else "dense"}
        write_run(study, name, [q.id for q in questions], Hits(ordinals, scores), about)
    return study


def compared(study):
    return Comparison.of_runs(measure(study, "lexical"), measure(study, "vectors"))


def said(study):
    found = [(each.topic, each.sentence) for each in findings(compared(study), 5, ("BM25", "dense"))]
    assert len(found) == len(dict(found)), "one sentence a topic"
    return dict(found)


def test_a_blind_spot_in_sentences(tmp_path):
    """50 frequent subjects: both find 45. 50 that are mentioned once: BM25 finds 44, dense the last 10 (4 of these alone: 46 to 49... )."""
    study = study_of(tmp_path / "blind", [(40, 50, 45, 50), (1, 50, 44, 10)])
    said_of = said(study)
    assert re.findall(r"dense|BM25|\d+%", said_of["frequency"]) == ["dense", "20%", "100%", "BM25", "88%", "90%"]
    assert re.findall(r"dense|BM25|\d+", said_of["only_a"]) == ["BM25", "40"]
    assert re.findall(r"dense|BM25|\d+", said_of["only_b"]) == ["dense", "11"]
    assert said_of["difference"].startswith("BM25 is 29.0 points ahead of dense")


def test_no_difference_is_called_none_and_small_groups_carry_no_sentence(tmp_path):
    said_of = said(study_of(tmp_path / "even", [(40, 40, 20, 20), (1, 40, 20, 20)]))
    assert "No difference" in said_of["difference"] and "+0.0 points (" in said_of["difference"]
    assert "Neither run" in said_of["frequency"]
    study = study_of(tmp_path / "few", [(40, 50, 45, 50), (1, 10, 9, 0)])
    assert "frequency" not in said(study)
    points = [(point.label, point.n, point.has_few_questions) for point in frequency_points(compared(study), 5)]
    assert points == [("30-99 mentions", 50, False), ("<=1 mentions", 10, True)]


def test_groups_in_words():
    assert bucket_words("bucket 7") == "in frequency group 7"
    assert bucket_words("4-9 mentions") == "where the subject is mentioned 4 to 9 times"
    assert bucket_words("100+ mentions") == "where the subject is mentioned 100 times or more"
