"""The measures of the registry on Home, on Relations and in the HTML report, equal to those of `report`."""

from __future__ import annotations

import pytest

from blindspot.backend.evaluation.comparison import measure_all
from blindspot.backend.evaluation.measures import MEASURES
from blindspot.backend.evaluation.panel import Panel, frequency_curves, relation_table
from blindspot.backend.evaluation.panel_report import relation_figures, relation_rows
from blindspot.backend.evaluation.report import report
from blindspot.backend.reports.html_report import html_report
from blindspot.db.errors import BadInput
from tests.app_pages import Page, hand_made_study

RUNS = ["alpha", "beta"]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return hand_made_study(tmp_path_factory.mktemp("measures") / "toy")


@pytest.mark.parametrize("name", MEASURES.names())
def test_the_relation_table_and_the_curves_are_those_of_the_report(study, name):
    measure = MEASURES.get(name)
    panel = Panel.of_runs(measure_all(study, RUNS, "gold"))
    table = relation_table(panel, 5, measure=measure)
    made = report(study, RUNS, "relation", "gold", ks=(5,), measures=[name])
    for run in made.runs:
        figures = run.measures[name]
        assert table.micro[run.name][5] == figures.at[5]
        assert table.macro[run.name][5] == figures.macro[5]
        ours = {row.group: row.success[run.name][5] for row in table.rows}
        assert ours == {group.key: group.at[5] for group in figures.groups}
    assert table.whole.difference.estimate.value == pytest.approx(
        table.micro["alpha"][5].value - table.micro["beta"][5].value
    )
    assert relation_rows(table, RUNS).title == f"{measure.title_at('k')} by relation, %"
    assert relation_figures(table, RUNS).as_csv().splitlines()[0] == f"relation,run,k,n,units,{name},low,high"
    curves = frequency_curves(panel, 5, measure=measure)
    points = [point for by_run in curves.series.values() for point in by_run["alpha"]]
    known = sum(point.n for point in points)
    values = panel.values(measure, 5)["alpha"][panel.frequency >= 0]
    assert known == len(values)
    assert sum(point.n * point.success.value for point in points) / known == pytest.approx(values.mean())


def test_a_measure_that_needs_all_relevant_passages_is_refused_by_answers(study):
    panel = Panel.of_runs(measure_all(study, RUNS, "answers"))
    with pytest.raises(BadInput, match="nDCG@1 needs all relevant passages"):
        relation_table(panel, 5, measure=MEASURES.get("ndcg"))


def test_home_shows_the_chosen_measure_of_every_run(study):
    page = Page(study.folder, measure="ndcg")
    made = report(study, RUNS, relevance="gold", ks=(5,), measures=["ndcg"])
    for run in made.runs:
        assert f"{run.measures['ndcg'].at[5].percent[0]:.1f}" in page.text
    assert "nDCG@k, in percent" in page.text and "is a gold passage of the question" in page.text
    links = [link for link in page.links() if "measure=map" in link]
    assert len(links) == 1
    plain = Page(study.folder)
    assert "Success@k, in percent" in plain.text and "cost" in plain.text


def test_relations_shows_the_chosen_measure(study):
    page = Page(study.folder, "relations", runs="alpha,beta", k=5, measure="mrr")
    assert "MRR@5 by relation, %" in page.text
    assert "MRR@5, %" in str(page.app.get("plotly_chart")[0].proto), "the plot has the measure, too"
    three = Page(study.folder, "relations", runs="alpha,beta,short", k=5, measure="mrr")
    assert "MRR@5 by relation, plot" in three.text
    assert "MRR@5, 95% intervals." in page.text
    assert not any("measure=ndcg" in link for link in page.links()), "nDCG needs relevance by gold"
    page = Page(study.folder, "relations", runs="alpha,beta", k=5, measure="ndcg", relevance="gold", view="frequency")
    assert "nDCG@5 by frequency, %" in page.text


def test_the_html_report_shows_measures_beside_success(study):
    whole = html_report(study, RUNS, measures=["ndcg", "mrr"])
    assert "nDCG@k over gold, %" in whole and "MRR@k averaged over relations, %" in whole
    assert "alpha: nDCG@k by relation, %" in whole and "Success@k averaged over relations, %" in whole
    assert "nDCG@k over" not in html_report(study, RUNS)
