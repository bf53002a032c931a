"""Measures of ranked lists: every registered measure equals ir_measures' on a study with graded qrels and labels, and
report, compare and slices show them with their relevance.
"""

from __future__ import annotations

import csv
import io
import json

import ir_measures
import numpy as np
import pytest

from blindspot.analysis import accuracy
from blindspot.analysis.significance import compare as paired
from blindspot.analysis.significance import sign_flip
from blindspot.backend.core.runs import write_run
from blindspot.backend.data.importing.qrels import import_qrels
from blindspot.backend.evaluation import saved_slices
from blindspot.backend.evaluation.comparison import Comparison, figures_at, measure_all
from blindspot.backend.evaluation.comparison_report import ComparisonOptions, compare_with
from blindspot.backend.evaluation.measures import MEASURES, SUCCESS
from blindspot.backend.evaluation.relevance import relevant
from blindspot.backend.evaluation.report import report
from blindspot.backend.judging.labels_io import export_labels, import_labels
from blindspot.db.errors import BadInput, Refused
from blindspot.db.labels import Labels
from blindspot.db.records import Hits, Question
from tests.studies import make_study, people

IN_IR_MEASURES = {
    "success": "Success@{k}",
    "mrr": "RR@{k}",
    "ndcg": "nDCG@{k}",
    "map": "AP@{k}",
    "recall": "R@{k}",
    "r-precision": "Rprec",
}
DEPTH = 12


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """40 questions with 0 to 6 graded gold passages of 60, two random runs, and labels of one annotator, who rejects some
    of the gold that the first run found.
    """
    folder = tmp_path_factory.mktemp("measures")
    rng = np.random.default_rng(4)
    passages = people(60)
    questions = [Question(f"q{i}", f"Question {i}?", ("nowhere",), "P19" if i % 2 else "P50") for i in range(40)]
    made = make_study(folder / "study", passages, questions)
    lines = []
    for question in questions:
        for passage in rng.choice(60, rng.integers(0, 7), replace=False):
            lines.append(f"{question.id} 0 {passages[passage].id} {rng.integers(0, 4)}\n")
    (folder / "graded.qrels").write_text("".join(lines))
    import_qrels(made, folder / "graded.qrels")
    for name in ("one", "two"):
        rows = np.array([rng.choice(60, DEPTH, replace=False) for _ in questions], dtype=np.int32)
        rows[3, 5:] = -1
        scores = np.where(rows < 0, -np.inf, -np.arange(DEPTH, dtype=np.float32)).astype(np.float32)
        write_run(made, name, [q.id for q in questions], Hits(rows, scores), {"retriever": "imported"})
    labelled = [f"q{i} 0 {passages[p].id} {int(rng.random() < 0.3)}\n" for i in range(40) for p in rng.choice(60, 3)]
    first = [(i, passages[row].id) for i, hits in enumerate(made.run("one").hits.ordinals) for row in hits if row >= 0]
    found_gold = [pair for pair in first if any(f"q{pair[0]} 0 {pair[1]} {grade}\n" in lines for grade in (1, 2, 3))]
    labelled += [f"q{i} 0 {passage} 0\n" for i, passage in found_gold[::3]]
    (folder / "labels.qrels").write_text("".join(dict.fromkeys(labelled)))
    import_labels(made, folder / "labels.qrels", format="qrels", annotator="ann", by_person=True)
    return made


def oracle(study, run_name: str, measure: str, qrels) -> dict[str, float]:
    """Return ir_measures' value of each question. The scores of the run decrease strictly."""
    run = study.run(run_name)
    ids = {passage.id: row for row, passage in enumerate(study.corpus.scan())}
    names = {row: id for id, row in ids.items()}
    docs = [
        ir_measures.ScoredDoc(question, names[int(row)], float(-rank))
        for question, hits in zip(run.question_ids, np.asarray(run.hits.ordinals), strict=True)
        for rank, row in enumerate(hits)
        if row >= 0
    ]
    found = ir_measures.iter_calc([ir_measures.parse_measure(measure)], qrels, docs)
    return {each.query_id: each.value for each in found}


def gold_qrels(study) -> list:
    """The graded qrels as a file of the study's own gold, independent of `relevant`."""
    from blindspot.db.gold import GoldMatches

    return [ir_measures.Qrel(q, p, grade) for (q, p), grade in GoldMatches(study.labels_path).grades().items()]


@pytest.mark.parametrize("name", IN_IR_MEASURES)
@pytest.mark.parametrize("k", [1, 3, 10, DEPTH])
def test_every_measure_over_graded_gold_equals_ir_measures(study, name, k):
    assert set(MEASURES.names()) == set(IN_IR_MEASURES)
    found = relevant(study, study.run("one"), "gold", as_imported=True)
    ours = MEASURES.get(name).values_of(found, k)
    theirs = oracle(study, "one", IN_IR_MEASURES[name].format(k=k), gold_qrels(study))
    assert 20 < len(found.questions) < 40 and np.unique(found.grades).tolist() == [0, 1, 2, 3]
    assert ours == pytest.approx([theirs[question.id] for question in found.questions])
    assert len(np.unique(ours)) > 1


@pytest.mark.parametrize("name", ["ndcg", "map", "success"])
def test_gold_that_people_reject_has_grade_0(study, name):
    rejected = Labels(study.labels_path).rejected_gold()
    qrels = [
        ir_measures.Qrel(
            each.query_id, each.doc_id, 0 if each.doc_id in rejected.get(each.query_id, ()) else each.relevance
        )
        for each in gold_qrels(study)
    ]
    assert any(was.relevance > now.relevance for was, now in zip(gold_qrels(study), qrels, strict=True))
    found = relevant(study, study.run("one"), "gold")
    theirs = oracle(study, "one", IN_IR_MEASURES[name].format(k=10), qrels)
    expected = [theirs[question.id] for question in found.questions]
    assert MEASURES.get(name).values_of(found, 10) == pytest.approx(expected)
    imported = oracle(study, "one", IN_IR_MEASURES[name].format(k=10), gold_qrels(study))
    assert expected != [imported[question.id] for question in found.questions], "what was rejected had been found"


@pytest.mark.parametrize("name", ["ndcg", "map", "success"])
def test_relevance_by_labels_equals_ir_measures_on_the_corrected_qrels(study, tmp_path, name):
    """Labels override the qrels: a label 0 removes a passage, a label 1 adds it; an imported grade stays."""
    grades = {(each.query_id, each.doc_id): each.relevance for each in gold_qrels(study)}
    export_labels(study, "qrels", tmp_path / "people.qrels")
    labels = list(ir_measures.read_trec_qrels(str(tmp_path / "people.qrels")))
    assert len(labels) > 80 and any(grades.get((each.query_id, each.doc_id), 0) > 0 for each in labels)
    merged = dict(grades)
    for each in labels:
        pair = each.query_id, each.doc_id
        merged[pair] = max(grades.get(pair, 1), 1) if each.relevance else 0
    qrels = [ir_measures.Qrel(*pair, grade) for pair, grade in merged.items()]
    found = relevant(study, study.run("two"), "labels")
    theirs = oracle(study, "two", IN_IR_MEASURES[name].format(k=10), qrels)
    assert MEASURES.get(name).values_of(found, 10) == pytest.approx(
        [theirs[question.id] for question in found.questions]
    )
    judged = oracle(study, "two", "Judged@10", qrels)
    made = report(study, ["two"], relevance="labels", ks=[10]).runs[0]
    expected = np.mean([judged[question.id] for question in found.questions])
    assert made.judged[10].judged.value == pytest.approx(expected) and 0 < expected < 1
    share = made.judged[10]
    assert share.lower.value == made.success[10].value <= share.upper.value


def test_measures_in_the_report(study):
    made = report(study, ks=[1, 10], by="relation", measures=["ndcg", "r-precision", "mrr"])
    figures = made.runs[0].measures["ndcg"]
    values = relevant(study, study.run("one"), "gold")
    ndcg = MEASURES.get("ndcg").values_of(values, 10)
    assert figures.kind == "gold" and made.runs[0].kind == "answers"
    assert figures.at[10].value == pytest.approx(ndcg.mean()) and figures.at[10].n == len(ndcg)
    by_hand = [ndcg[[q.relation == relation for q in values.questions]].mean() for relation in ("P19", "P50")]
    assert [group.at[10].value for group in figures.groups] == pytest.approx(by_hand)
    assert figures.macro[10].value == pytest.approx(np.mean(by_hand))
    content = json.loads(made.as_json())["runs"]["one"]["measures"]
    assert list(content) == ["ndcg", "r-precision", "mrr"] and list(content["r-precision"]["k"]) == ["all"]
    assert content["ndcg"]["k"]["10"]["value"] == figures.at[10].value
    assert content["mrr"]["relevance"] == "answers"
    lines = list(csv.DictReader(io.StringIO(made.as_csv())))
    line = next(each for each in lines if (each["measure"], each["group"], each["k"]) == ("ndcg", "all", "10"))
    assert float(line["value"]) == figures.at[10].value and line["relevance"] == "gold"
    assert len({(e["run"], e["group"], e["measure"], e["k"], e["relevance"]) for e in lines}) == len(lines)
    text = made.as_latex()
    assert "nDCG@k over gold" in text and "R-precision" in text and "Success@k, " not in text


def test_measures_in_compare(study):
    made = compare_with(study, "one", "two", ComparisonOptions(by="relation", measure="ndcg"))
    sides = Comparison.of_runs(*measure_all(study, ["one", "two"], "gold").values())
    a, b = sides.values(MEASURES.get("ndcg"), 10)
    assert made.k == 10 and made.kind == "gold" and made.measure.name == "ndcg"
    both = made.figures_at[10]
    assert (both.a.value, both.b.value) == pytest.approx((a.mean(), b.mean()))
    assert both.difference.p == sign_flip(a - b) and both.difference.p_mcnemar is None
    assert both.oracle.value == pytest.approx(np.maximum(a, b).mean())
    assert both.oracle.value > max(both.a.value, both.b.value)
    assert (both.difference.only_a, both.difference.only_b) == ((a > b).sum(), (a < b).sum())
    assert "nDCG@10" in made.conclusion and "so gold passages count as relevant" in " ".join(made.notes)
    content = json.loads(made.as_json())
    assert content["measure"] == "ndcg" and content["at"]["10"]["a"]["ndcg"] == both.a.value
    assert content["at"]["10"]["a_better"] == (a > b).sum()
    line = next(csv.DictReader(io.StringIO(made.as_csv())))
    assert "a_better" in line and "only_a" not in line and "oracle_high" in line
    table, *_ = made.tables()
    caption, head, rows = table.title, table.headings, table.texts()
    assert caption.startswith("A: one, B: two. nDCG@k over gold") and "A better" in head and len(rows[0]) == len(head)
    assert list(compare_with(study, "one", "two", ComparisonOptions(measure="r-precision")).figures_at) == [10]
    assert "mrr" in compare_with(study, "one", "two", ComparisonOptions(measure="mrr", relevance="gold")).as_json()


def test_the_oracle_of_success_takes_what_either_run_finds(study):
    sides = Comparison.of_runs(*measure_all(study, ["one", "two"], "gold").values())
    both = figures_at(sides, 5)
    assert both.oracle.value == pytest.approx((both.n - both.flips.neither) / both.n)
    made = compare_with(study, "one", "two", ComparisonOptions(relevance="gold"))
    assert made.as_dict()["at"]["5"]["oracle"]["success"] == both.oracle.value
    table, *_ = made.tables()
    head, rows = table.headings, table.texts()
    assert rows[list(made.figures_at).index(5)][head.index("oracle")] == f"{100 * both.oracle.value:.1f}"


def test_measures_by_saved_slice(study):
    saved_slices.save(study, "first half", "relation:P19", by=None)
    made = compare_with(study, "one", "two", ComparisonOptions(by="slice", measure="map"))
    assert made.groups["first half"].n == made.as_dict()["groups"]["first half"]["n"] > 0
    figures = report(study, ["one"], by="slice", measures=["map"], ks=[10]).runs[0].measures["map"]
    assert figures.groups[0].at[10].value == pytest.approx(made.groups["first half"].a.value)


def test_bad_choices_are_refused_in_one_line(study):
    with pytest.raises(Refused, match="unknown measure 'bleu'; known: success, mrr, ndcg, map, recall, r-precision"):
        report(study, measures=["bleu"])
    with pytest.raises(Refused, match="unknown measure"):
        compare_with(study, "one", "two", ComparisonOptions(measure="bleu"))
    with pytest.raises(BadInput, match="unknown by answers; choose relevance by gold or by labels"):
        MEASURES.get("ndcg").values_of(relevant(study, study.run("one")), 5)


def test_floats_of_two_runs_are_compared_as_they_are():
    a, b = np.array([0.5, 0.25, 1.0, 0.0]), np.array([0.25, 0.25, 0.0, 0.1])
    found = paired(a, b)
    assert found.estimate.value == pytest.approx((a - b).mean()) and (found.only_a, found.only_b) == (2, 1)
    assert found.p == sign_flip(a - b) and found.p_mcnemar is None


def test_questions_without_relevant_passages_count_as_0_as_in_trec_eval():
    none = np.zeros((1, 3), dtype=bool)
    assert accuracy.average_precision(none, np.array([0]), 3).tolist() == [0]
    assert accuracy.r_precision(none, np.array([0])).tolist() == [0]
    assert accuracy.ndcg_at(none.astype(int), np.zeros((1, 2)), 3).tolist() == [0]
    assert SUCCESS.title_at(5) == "Success@5" and MEASURES.get("r-precision").title_at(7) == "R-precision"
