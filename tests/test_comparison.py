"""Comparisons, panels and the HTML report: figures worked by hand, equal in every output format."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest

from blindspot.analysis import published
from blindspot.analysis.accuracy import Estimate
from blindspot.analysis.buckets import UNKNOWN, Point
from blindspot.analysis.intervals import wilson
from blindspot.analysis.significance import holm, mcnemar, sign_flip
from blindspot.backend.core.runs import write_run
from blindspot.backend.evaluation import saved_slices
from blindspot.backend.evaluation.comparison import Comparison, by_group, figures_at, macro_at, measure_all
from blindspot.backend.evaluation.comparison_report import COLUMNS, ComparisonOptions, compare_with
from blindspot.backend.evaluation.comparison_words import conclusion, significance_sentence
from blindspot.backend.evaluation.panel import (
    ALL,
    RANDOM,
    TRAINED,
    Curves,
    Panel,
    frequency_curves,
    relation_table,
    runs_named,
    training_subjects,
)
from blindspot.backend.evaluation.report_plots import curve_plot
from blindspot.backend.evaluation.slice_report import find_in_runs
from blindspot.backend.reports.html_report import html_report, write_html_report
from blindspot.db.errors import BadInput, Missing
from blindspot.db.records import Question
from tests.app_pages import HOSTILE, RANKS_A, RANKS_B, _hits, hand_made_study
from tests.studies import births, make_study, people


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return hand_made_study(tmp_path_factory.mktemp("comparison") / "toy")


def panel(study, *runs) -> Panel:
    return Panel.of_runs(measure_all(study, runs))


def test_by_hand(study):
    """At 5 alpha finds 0 1 2 4 6, beta 0 2 3 6; P19 is 0 1 2, P50 the rest."""
    made = compare_with(study, "alpha", "beta", ComparisonOptions(by="relation"))
    both = made.figures_at[5]
    assert (both.n, both.a.value, both.b.value) == (7, 5 / 7, 4 / 7)
    assert (both.a.low, both.a.high) == wilson(5, 7)
    assert (both.flips.both, both.flips.only_a, both.flips.only_b, both.flips.neither) == (3, 2, 1, 1)
    assert both.difference.p == sign_flip(np.array([0, 1, 0, -1, 1, 0, 0.0])) and both.difference.p_mcnemar == mcnemar(
        2, 1
    )
    assert made.macro[5].a.value == pytest.approx((3 / 3 + 2 / 4) / 2) and made.macro[
        5
    ].difference.estimate.value == pytest.approx((1 / 3 + 0) / 2)
    assert {name: (each.n, each.flips.only_a) for name, each in made.groups.items()} == {"P19": (3, 1), "P50": (4, 1)}
    assert list(made.figures_at) == [1, 5], "20 and 100 are deeper than the runs"


def test_p_is_adjusted_for_every_test_of_the_table(study):
    """Two cut-offs, over questions and averaged over relations: four p values, adjusted together in every form."""
    made = compare_with(study, "alpha", "beta", ComparisonOptions())
    whole = [*made.figures_at.values(), *made.macro.values()]
    assert len(whole) == 4
    assert [both.difference.p_adjusted for both in whole] == pytest.approx(holm([both.difference.p for both in whole]))
    table, *_ = made.tables()
    head, rows = table.headings, table.texts()
    assert "p (Holm)" in head and "p" not in head
    assert [row[head.index("p (Holm)")] for row in rows] == [f"{both.difference.p_adjusted:.3f}" for both in whole]
    assert "after Holm's method for 4 tests" in made.conclusion and "Holm" in made.method
    content = json.loads(made.as_json())
    assert content["at"]["5"]["p_holm"] == made.figures_at[5].difference.p_adjusted


def test_every_form_says_the_same(study):
    made = compare_with(study, "alpha", "beta", ComparisonOptions(by="bucket"))
    content = json.loads(made.as_json())
    lines = list(csv.DictReader(io.StringIO(made.as_csv())))
    assert tuple(lines[0]) == COLUMNS
    for line in lines:
        said = (
            content["at"][line["k"]]
            if line["group"] == "all"
            else content["macro"][line["k"]]
            if line["group"] == "macro"
            else content["groups"][line["group"]]
        )
        assert [float(line[key]) for key in ("n", "difference", "low", "high", "p")] == [
            said[key] for key in ("n", "difference", "low", "high", "p")
        ]
        assert (float(line["a"]), float(line["b_high"])) == (said["a"]["success"], said["b"]["high"])
    latex = made.as_latex()
    assert "\\toprule" in latex and "only A" in latex and made.conclusion in latex
    assert len(made.tables()[1].rows) == len(content["groups"])


def test_a_slice_narrows_every_figure(study):
    made = compare_with(
        study, "alpha", "beta", ComparisonOptions(by="relation", slice="relation:P19 or first(alpha)=1")
    )
    assert made.figures_at[5].n == 4 and {name: each.n for name, each in made.groups.items()} == {"P19": 3, "P50": 1}
    assert "follows from its definition" in made.conclusion, "a slice by ranks proves nothing"
    assert "Inconclusive" in compare_with(study, "alpha", "beta", ComparisonOptions(slice="relation:P19")).conclusion
    with pytest.raises(BadInput, match="no question of these runs is in that slice"):
        compare_with(study, "alpha", "beta", ComparisonOptions(slice="bucket:7"))


def test_by_saved_slices(study):
    with pytest.raises(Missing, match="no saved slices"):
        compare_with(study, "alpha", "beta", ComparisonOptions(by="slice"))
    saved_slices.save(study, "births", "relation:P19")
    saved_slices.save(study, "all of them", "not bucket:0")
    try:
        made = compare_with(study, "alpha", "beta", ComparisonOptions(by="slice"))
        assert {name: each.n for name, each in made.groups.items()} == {"births": 3, "all of them": 7}
        assert made.names["births"] == "births (relation:P19)"
    finally:
        (study.folder / "slices.json").unlink()


def test_what_cannot_be_is_refused(study):
    with pytest.raises(BadInput, match="k is 99"):
        compare_with(study, "alpha", "beta", ComparisonOptions(k=99))
    with pytest.raises(BadInput, match="must be one of relation, bucket, slice"):
        compare_with(study, "alpha", "beta", ComparisonOptions(by="colour"))
    with pytest.raises(Missing, match="nobody"):
        compare_with(study, "alpha", "nobody", ComparisonOptions())
    assert "compared on the 3" in " ".join(compare_with(study, "short", "beta", ComparisonOptions()).notes).lower()


@pytest.mark.parametrize(
    "low, high, p, said, left_out",
    [
        (
            0.016,
            0.144,
            0.24,
            "the 95% interval of this figure alone, +1.6 to +14.4 points, excludes 0",
            "the 95% interval is",
        ),
        (-0.016, 0.144, 0.24, "the 95% interval is −1.6 to +14.4 points", "excludes 0"),
        (-0.001, 0.144, 0.04, "by 7.6 points (95% interval −0.1 to 14.4, p = 0.040", "no significant difference"),
    ],
)
def test_the_sentence_follows_the_adjusted_verdict(study, low, high, p, said, left_out):
    """The interval is not adjusted and p is: where the two differ the sentence must not contradict itself."""
    figures = compare_with(study, "alpha", "beta", ComparisonOptions()).figures_at[5]
    estimate = replace(figures.difference.estimate, value=0.076, low=low, high=high)
    found = replace(figures, difference=replace(figures.difference, estimate=estimate, p=0.03, p_adjusted=p))
    sentence = conclusion(found, "alpha", "beta", 8)
    assert said in sentence and left_out not in sentence
    assert ("no significant difference" in sentence) == (p > 0.05)
    below = significance_sentence(found, 8)
    verdict = "; significant on this collection" if p <= 0.05 else ": the difference is not significant"
    assert f"ver 7 questions{verdict} (p = {p:.3f}, adjusted for 8 tests)" in below
    assert ("excludes 0" in below) == (p > 0.05 and low > 0) and "7 questions" in below
    turned = replace(
        found, difference=replace(found.difference, estimate=replace(estimate, value=-0.076, low=-high, high=-low))
    )
    if p <= 0.05:
        assert "beta finds" in conclusion(turned, "alpha", "beta", 8) and said in conclusion(turned, "alpha", "beta", 8)


def test_the_conclusion_says_no_more_than_the_test(study):
    made = compare_with(study, "alpha", "beta", ComparisonOptions())
    assert (
        "no significant difference between alpha and beta in the top 5" in made.conclusion
        and "says nothing about other collections" in made.reservation
    )
    passages = people(90)
    clear = make_study(study.folder.parent / "clear", passages, births(passages))
    ids = [question.id for question in clear.questions.all()]
    rows = np.arange(len(passages))
    from blindspot.db.records import Hits

    gold = [clear.corpus.ordinals(question.gold)[question.gold[0]] for question in clear.questions.all()]
    others = rows[[" born in " not in passage.text for passage in passages]][:5]
    scores = np.tile(np.linspace(9, 5, 5, dtype=np.float32), (len(ids), 1))
    good = np.column_stack([gold, *(np.full(len(ids), other) for other in others[:4])]).astype(np.int32)
    write_run(clear, "good", ids, Hits(good, scores), {"retriever": "bm25"})
    write_run(clear, "bad", ids, Hits(np.tile(others, (len(ids), 1)).astype(np.int32), scores), {"retriever": "x"})
    for a, b in (("good", "bad"), ("bad", "good")):
        found = compare_with(clear, a, b, ComparisonOptions(relevance="gold"))
        assert "good finds a relevant passage in the top 5 more often than bad, by 100.0 points" in found.conclusion
        assert "p < 0.001" in found.conclusion and "only gold passages count" in found.reservation
    everything = Comparison.of_runs(*measure_all(clear, ("good", "bad"), "gold").values())
    assert macro_at(everything, 1).n == len(ids)
    assert (
        conclusion(figures_at(everything, 1, np.zeros(0, int)), "good", "bad")
        == "There are no questions, so there is no conclusion."
    )


def test_a_panel_of_three_runs_is_over_what_all_measure(study):
    made = panel(study, "alpha", "beta", "short")
    assert len(made) == 3 and made.first_ranks["beta"].tolist() == list(RANKS_B[:3])
    table = relation_table(made, 5)
    assert [row.group for row in table.rows] == ["P19"] and table.ks == [1, 5]
    assert table.micro["alpha"][5].n == 3 and table.differences["P19"].n == 3 and table.whole.n == 3
    one = relation_table(panel(study, "alpha"), 1)
    assert one.whole is None and one.differences == {} and one.micro["alpha"][1].value == 3 / 7
    assert panel(study, "alpha").first_ranks["alpha"].tolist() == list(RANKS_A)


def test_runs_named():
    assert runs_named("b,x,b,a", ["a", "b"], ["a"]) == ["b", "a"] and runs_named("", ["a", "b"], ["a"]) == ["a"]


def frequency_study(folder):
    """Six questions with three frequencies, two of them in official bucket sets, and a training question about thing
    1.
    """
    study = hand_made_study(folder)
    study.questions.add(
        [
            Question("t", "Where was Thing  1 born?", ("x",), "P19", "Thing  1", split="train"),
            *(
                Question(
                    f"b{i}",
                    f"Where is it {i}?",
                    ("Ansver0",),
                    "P19",
                    f"it {i}",
                    bucket=i,
                    frequency=5,
                    dataset=name,
                    split="test",
                )
                for i, name in ((0, "common-random-buckets"), (7, "common-random-buckets"), (1, "nq-seen-buckets"))
            ),
        ]
    )
    write_run(study, "buckets", ["b0", "b7", "b1"], _hits((1, 0, 2)), {"retriever": "bm25"})
    return study


def test_curves_from_official_sets_and_from_mentions(tmp_path):
    study = frequency_study(tmp_path / "s")
    official = frequency_curves(panel(study, "buckets"), 5)
    assert official.cut == "official" and {
        name: [p.bucket for p in each["buckets"]] for name, each in official.series.items()
    } == {"common-random-buckets": [0, 7], "nq-seen-buckets": [1]}
    cut = frequency_curves(panel(study, "alpha"), 5, frequency_cut="mass")
    assert cut.cut == "mass" and set(cut.series) == {RANDOM, TRAINED} and "1 imported training question" in cut.training
    points = [point for each in cut.series.values() for point in each["alpha"]]
    assert sum(point.n for point in points) == 6, "question 5's frequency is unknown"
    assert [point.n for point in cut.series[TRAINED]["alpha"]] == [1] and cut.source == "the question files"
    (study.folder / "training_subjects.txt").write_text("nobody\n")
    assert training_subjects(study) == ({"nobody"}, "training_subjects.txt") and set(
        frequency_curves(panel(study, "alpha"), 5).series
    ) == {ALL}
    assert {point.n for point in frequency_curves(panel(study, "alpha"), 5, "P19", "mass").series[ALL]["alpha"]} == {1}


def test_groups_by_mentions_are_the_default_and_those_of_the_comparison(tmp_path):
    """The curve shows the groups of the comparison's table, with the same counts and the same accuracy."""
    study = frequency_study(tmp_path / "s")
    (study.folder / "training_subjects.txt").write_text("nobody\n")
    shown = panel(study, "alpha", "beta")
    made = frequency_curves(shown, 5)
    assert made.cut == "mentions"
    groups = by_group(shown.comparison, 5, shown.comparison.groups("bucket"))
    expected = {
        name.removesuffix(" mentions").replace("<=", "≤").replace("-", "–"): (each.n, each.a.value)
        for name, each in groups.items()
        if name != UNKNOWN
    }
    assert {made.label(p.bucket): (p.n, p.success.value) for p in made.series[ALL]["alpha"]} == expected and expected
    figure = curve_plot(made, ["alpha", "beta"])
    assert list(figure.layout.xaxis.ticktext) == [
        f"{made.label(p.bucket)}<br>n {p.n}" for p in made.series[ALL]["alpha"]
    ]
    for points, few in zip(figure.data[::2], figure.data[1::2], strict=True):
        assert few.x and few.marker.line.color == points.marker.color, "hollow points keep the run's colour"


def test_a_line_leaves_out_groups_of_fewer_than_five_facts():
    points = [
        Point(bucket, 2 * units, units, Estimate(0.5, 2 * units, 0.2, 0.8, "t", units=units), 1, 1)
        for bucket, units in enumerate((40, 4, 5))
    ]
    curves = Curves({ALL: {"one": points, "two": points}}, 5, "", "mentions", "the files", None, unit="fact")
    figure = curve_plot(curves, ["one", "two"])
    drawn = [(trace.mode, len(trace.x), trace.showlegend) for trace in figure.data[::2]]
    assert drawn == 2 * [("lines+markers", 2, True), ("markers", 1, False)]
    assert list(figure.layout.xaxis.ticktext) == [
        "≤1<br>n 80<br>40 facts",
        "2–3<br>n 8<br>4 facts",
        "4–9<br>n 10<br>5 facts",
    ]
    beside = [trace.x[0] for trace in figure.data[::4]]
    assert beside[0] < beside[1], "the points of a group stand beside each other"


def test_published_figures_stand_with_their_relations(real_data):
    content = json.loads((real_data / "published_results.json").read_text())["entityquestions_paper"]["table5_top20"]
    assert {
        name: (v["dpr_nq"], v["dpr_multi"], v["bm25"]) for name, v in content.items() if name != "Average"
    } == published.TOP_20
    assert tuple(content["Average"].values()) == published.AVERAGE
    assert np.mean([each[2] for each in published.TOP_20.values()]) == pytest.approx(published.AVERAGE[2], abs=0.06)
    assert "Not directly comparable" in published.comparability_caveat(
        10, 5
    ) and "10 passages" in published.comparability_caveat(10, 5)


def test_the_html_report_needs_nothing_else_and_says_what_the_commands_say(study):
    text = html_report(study)
    assert text.count("<!doctype html>") == 1 and not re.search(r'<(script|link|img)[^>]+(src|href)="?http', text)
    shown = unescape(re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL))
    made = compare_with(study, "alpha", "beta", ComparisonOptions(by="relation"))
    for table in made.tables():
        for row in table.texts():
            assert all(f"<td>{cell}</td>" in shown for cell in row), row
    assert made.conclusion in shown and "Limits: figures may differ" in shown
    assert text.count("Plotly.newPlot") == text.count('<button type="button" onclick="save(this, \'svg\')"') >= 2


def report_of(text):
    """The report's text without scripts, and its sections by id."""
    shown = unescape(re.sub(r"<(script|style).*?</\1>", "", text, flags=re.DOTALL))
    sections = re.split(r'<h2 id="([^"]*)">', shown)
    return shown, dict(zip(sections[1::2], sections[2::2], strict=True))


def test_the_report_begins_with_conclusions_and_shows_examples_side_by_side(study):
    """alpha alone answers 1 and 4 at 5, beta alone 3: three examples, each with both lists and what is known of the miss."""
    shown, sections = report_of(html_report(study))
    assert list(sections)[:4] == ["conclusions", "pair0", "causes0", "examples"] and "labels" not in sections
    assert "No difference between" in sections["conclusions"] and 'href="#pair0"' in sections["conclusions"]
    examples = re.findall(r'<article class="example">(.*?)</article>', sections["examples"], re.DOTALL)
    assert len(examples) == 3 and "3 examples side by side" in sections["examples"]
    (only_b,) = [each for each in examples if "Where is thing 3?" in each]
    assert "alpha: no relevant passage in its first 15" in only_b and "beta: first relevant passage at rank 2" in only_b
    assert "Why alpha missed it:" in only_b and "It has no gold passage in its first 15." in only_b
    (deep,) = [each for each in examples if "Where is thing 4?" in each]
    assert "only alpha answers it in its first 5" in deep and "Why beta missed it:" in deep
    assert deep.count('class="badge">✓ answer') == 1 and '<mark class="answer">Ansver4</mark>' in deep


def test_the_report_says_what_labels_and_training_changed(small_demo):
    """Every figure is that of the page or command that shows it."""
    from blindspot.backend.demo.making import RUNS
    from blindspot.backend.judging.corrected import corrected_run
    from blindspot.backend.judging.quality import quality
    from blindspot.backend.training_sets.differences import change_summary
    from blindspot.backend.training_sets.training_set import TrainingSet

    _, sections = report_of(html_report(small_demo))
    found = quality(small_demo)
    alpha = found.together.positive
    assert f"<td>{alpha.value:.2f} ({alpha.low:.2f} to {alpha.high:.2f})</td>" in sections["labels"]
    assert all(f"<td>{each.name}</td>" in sections["labels"] for each in found.work)
    at_5 = corrected_run(small_demo, small_demo.run("bm25-train")).figures_at([5])[0]
    value, low, high = at_5.corrected.percent
    assert f"<td>{value:.1f} ({low:.1f} to {high:.1f})</td>" in sections["labels"]
    changes = change_summary(TrainingSet.open(small_demo, "noisy"), TrainingSet.open(small_demo, "clean"))
    assert f"From noisy to clean: {changes.changed:,} changed pairs" in sections["training"]
    for (_, _, why), count in changes.changes.items():
        assert re.search(rf"<td[^>]*>{re.escape(why)}</td><td>{count:,}</td>", sections["training"])
    for name in ("noisy", "clean"):
        made = compare_with(small_demo, RUNS["dense"], f"trained-{name}-dev", ComparisonOptions())
        change = -made.figures_at[5].difference.estimate.percent[0]
        assert f"<td>{change:+.1f} (" in sections["training"]
        assert f"trained-{name}" in sections["conclusions"]
    order = ["conclusions", "pair0", "examples", "labels", "training", "accuracy", "set0"]
    assert [name for name in sections if name in order] == order


def test_the_html_report_escapes_data(tmp_path):
    passages = people(30)
    asked = [
        Question(q.id, q.text, q.answers, HOSTILE, q.subject, frequency=3, split="dev", gold=q.gold)
        for q in births(passages)
    ]
    study = make_study(tmp_path / "hostile", passages, asked)
    write_run(study, "one", [q.id for q in asked], _hits((1,) * len(asked)), {"retriever": "bm25"})
    saved_slices.save(study, "<script>x</script>", "word:who")
    size = write_html_report(study, tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert (
        size == len(text.encode())
        and "<script>window.pwned" not in text
        and "<img src=x" not in text
        and "<script>x" not in text
    )


def test_found_slices_in_every_form(study):
    made = find_in_runs(study, ("alpha", "beta"))
    assert json.loads(made.as_json())["slices"] == [] and made.as_csv().startswith("slice,k,n")
    assert "0 slices" in made.as_latex()


def test_the_command_prints_the_same_figures(study):
    import typer
    from typer.testing import CliRunner

    from blindspot.app.commands.compare import compare

    app = typer.Typer()
    app.command()(compare)

    def run(*words: str) -> str:
        done = CliRunner().invoke(app, [*words, "--study", str(study.folder)])
        assert done.exit_code == 0, done.output
        return done.output

    made = compare_with(study, "alpha", "beta", ComparisonOptions(by="relation"))
    assert json.loads(run("alpha", "beta", "--by", "relation", "--json")) == made.as_dict()
    assert run("alpha", "beta", "--by", "relation", "--csv") == made.as_csv()
    assert run("alpha", "beta", "--by", "relation", "--latex").strip() == made.as_latex().strip()
    shown = " ".join(run("alpha", "beta", "--slice", "relation:P19").split())
    assert "over these 3 questions" in shown and "slice relation:P19" in shown
    assert json.loads(run("alpha", "beta", "--find-slices", "--json"))["tried"] == 0
    assert CliRunner().invoke(app, ["alpha", "beta", "--csv", "--json", "--study", str(study.folder)]).exit_code == 2
