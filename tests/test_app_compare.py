from __future__ import annotations

import re
from urllib.parse import parse_qsl

import numpy as np
import pytest

from blindspot.analysis.intervals import tango
from blindspot.app.components.compare_tables import scrolling
from blindspot.app.components.marks import relation_label, unbroken
from blindspot.app.components.pager import pager
from blindspot.app.markup import tag
from blindspot.app.selection import _turns
from blindspot.backend.core.result_table import signed_ends, signed_number
from blindspot.backend.core.runs import write_run
from blindspot.backend.evaluation.comparison_report import ComparisonOptions, compare_with
from blindspot.backend.evaluation.comparison_words import significance_sentence
from tests.app_pages import Page, _hits, hand_made_study
from tests.studies import births, make_study, people


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return hand_made_study(tmp_path_factory.mktemp("compare") / "toy")


def compare(study, **parameters) -> Page:
    return Page(study.folder, "compare", **({"a": "alpha", "b": "beta"} | parameters))


def listed(page: Page) -> list[str]:
    """Ids of the questions in the list, in order."""
    return re.findall(r'href="question\?question=(q\d)', page.html)


def cells(page: Page) -> dict[str, str]:
    return dict(re.findall(r'<td class="cell (\w+)[^"]*">.*?class="number">([\d,]+)<', page.html))


def test_the_flip_table_counts_who_finds_what(study):
    assert cells(compare(study)) == {"both": "3", "only_a": "2", "only_b": "1", "neither": "1"}
    assert cells(compare(study, k=1)) == {"both": "1", "only_a": "2", "only_b": "1", "neither": "3"}


@pytest.mark.parametrize(
    ("cell", "ids"), [("both", {"q0", "q2", "q6"}), ("only_a", {"q1", "q4"}), ("only_b", {"q3"}), ("neither", {"q5"})]
)
def test_a_cell_opens_its_questions(study, cell, ids):
    page = compare(study, cell=cell)
    assert set(listed(page)) == ids
    assert any(
        f"cell={other}" in link
        for link in page.links()
        for other in ("both", "only_a", "only_b", "neither")
        if other != cell
    )


def test_filters_narrow_the_list_and_the_figures(study):
    page = compare(study, relation="P19")
    assert set(listed(page)) == {"q0", "q1", "q2"}
    assert cells(page) == {"both": "2", "only_a": "1", "only_b": "0", "neither": "0"}
    assert "over the 3 of 7 questions" in page.text
    assert set(listed(compare(study, text="THING ansver3"))) == {"q3"}
    assert set(listed(compare(study, set="test · toy"))) == {"q6"}
    assert "No question matches" in compare(study, relation="P999").text


@pytest.mark.parametrize(("sort", "order"), [
    ("order", "q0 q1 q2 q3 q4 q5 q6"), ("-order", "q6 q5 q4 q3 q2 q1 q0"),
    ("a", "q0 q1 q6 q4 q2 q3 q5"), ("-a", "q2 q4 q0 q1 q6 q3 q5"),       # questions that were never answered stay last
    ("b", "q0 q2 q3 q6 q1 q4 q5"),
    ("frequency", "q6 q4 q3 q2 q1 q0 q5"),                               # q5's is unknown
    ("contrast", "q1 q2 q3 q4 q6 q0 q5"),                                # 1, 2/3, 1/2, 1/2, 1/2, 0, 0
    ("overlap", "q1 q2 q6 q4 q3 q0 q5"),                                 # 0.74 thrice, 0.82, 0.84, 1, 1
])  # fmt: skip
def test_sorting(study, sort, order):
    assert listed(compare(study, sort=sort)) == order.split()


def test_questions_of_equal_contrast_come_from_all_relations_in_turn():
    values, groups = np.array([0.0, -1, -1, -1, -1, -1, -1, np.inf, np.inf]), np.array([0, 0, 0, 0, 1, 1, 2, 1, 1])
    turns = _turns(values, groups)
    assert turns.tolist() == [0, 0, 1, 2, 0, 1, 0, 0, 1]
    assert np.lexsort((turns, values)).tolist() == [1, 4, 6, 2, 5, 3, 0, 7, 8]
    assert _turns(values[:0], groups[:0]).tolist() == []


def row(page: Page, start: str) -> str:
    return next(line for line in page.part(r"<tr[ >](?:(?!</tr>).)*?</tr>") if line.startswith(start))


def ends(plus, minus, n):
    """Tango's interval in points, as a row shows it."""
    low, high = (100 * each for each in tango(plus, minus, n))
    return f"{low:+.1f} to {high:+.1f}".replace("-", "−")


def by_relation(study, **parameters) -> Page:
    return Page(study.folder, "relations", runs="alpha,beta", **parameters)


def test_accuracy_by_relation_reads_as_words(study):
    page = by_relation(study)
    shown = row(page, "place of birth (P19)")
    assert shown.startswith(f"place of birth (P19) 3 100.0 66.7 A +33.3 {ends(1, 0, 3)} 1 0 1.000"), shown
    assert row(page, "author (P50)").startswith(f"author (P50) 4 50.0 50.0 0.0 {ends(1, 1, 4)} 1 1 1.000")


def test_compare_leads_to_its_runs_by_relation(study):
    assert "relations?runs=alpha%2Cbeta&k=5" in compare(study, k=5).links()
    assert any(
        "view=frequency" not in each and "measure=mrr" in each
        for each in compare(study, measure="mrr").links()
        if each.startswith("relations")
    )


def test_another_measure_fills_the_tables_and_the_conclusion(study):
    """By answers only Success@k and MRR@k can be measured; the figures are those of `blindspot compare`."""
    page = compare(study, measure="mrr")
    made = compare_with(study, "alpha", "beta", ComparisonOptions(k=5, by="relation", measure="mrr"))
    both = made.figures_at[5]
    assert "MRR@k, %" in page.text and significance_sentence(both, 4) in page.text
    assert f"either run {100 * made.figures_at[1].oracle.value:.1f}" in row(page, "either run")
    assert row(by_relation(study, measure="mrr", k=5), "place of birth (P19)").startswith(
        f"place of birth (P19) 3 {100 * made.groups['P19'].a.value:.1f} {100 * made.groups['P19'].b.value:.1f}"
    )
    assert f"{100 * both.a.value:.1f}" in page.text and any("measure=mrr" in link for link in page.links())
    assert "Success@k, %" in compare(study, measure="ndcg").text, "nDCG is unknown by answers"


def test_narrow_windows_leave_columns_out_and_show_them_on_demand(study):
    page = by_relation(study, k=5)
    wide = page.part('<th [^>]*class="wide".*?</th>')
    assert wide == ["n", "A alpha @5", "B beta @5", "only A", "only B"]
    assert page.part('<th [^>]*class="wide deep".*?</th>')[0] == "p (Holm)"
    assert page.part("<summary>All columns</summary>")
    assert "All columns" not in scrolling(tag("table", tag("tr", tag("td", "1")), cls="wider"))


def test_pages_lead_on_in_the_loop_with_the_compared_runs(study):
    assert compare(study, a="beta", b="alpha", k=2, relation="P50").next_step() == (
        "Next: look at questions",
        "question?a=beta&b=alpha&k=2&relation=P50",
    )
    assert Page(study.folder, "question").next_step() == ("Next: judge passages", "judge")
    assert Page(study.folder, "training").next_step() == ("Next: train on it", "training?tab=models")


def test_groups_by_bucket_and_every_count_opens_its_questions(study):
    page = by_relation(study, view="frequency")
    assert re.match(r"10.29 2 100\.0 [\d.–]+ 50\.0 [\d.–]+ A \+50\.0", row(page, "10"))
    opened = [link for link in page.links() if "cell=only_a" in link and "frequency" in link]
    (address,) = [each for each in opened if "10" in each]
    asked = dict(parse_qsl(address.partition("?")[2]))
    assert set(listed(compare(study, **asked))) == {"q1"}
    assert set(listed(compare(study, cell="only_a", bucket="10-29 mentions"))) == {"q1"}
    assert set(listed(compare(study, bucket="frequency unknown"))) == {"q5"}


def test_the_page_says_what_the_command_says(study):
    """Pages and command show the same figures: every cell of the command's tables is on Compare or Relations."""
    made = compare_with(study, "alpha", "beta", ComparisonOptions(k=5, by="relation"))
    page = compare(study, k=5)
    _, low, high = made.figures_at[5].difference.estimate.percent
    assert f"(95%: {signed_ends(low, high)})" in page.text and f"{signed_ends(low, high)} points" in made.conclusion
    tests = int(re.search(r"for (\d+) tests", made.conclusion)[1])
    assert significance_sentence(made.figures_at[5], tests) in page.text and made.reservation in page.text
    grouped = by_relation(study, k=5)
    for name, both in made.groups.items():
        estimate, flips = both.difference.estimate, both.flips
        shown = row(grouped, relation_label(name)).removeprefix(relation_label(name)).split()
        assert shown[:3] == [f"{both.n:,}", f"{100 * both.a.value:.1f}", f"{100 * both.b.value:.1f}"]
        interval = signed_ends(100 * estimate.low, 100 * estimate.high)
        assert f"{interval} {flips.only_a} {flips.only_b} {both.difference.p_adjusted:.3f}" in " ".join(shown)
        in_relation = cells(compare(study, k=5, relation=name))
        assert in_relation == {cell: str(getattr(flips, cell)) for cell in in_relation}
    for k, both in made.figures_at.items():
        low, high = 100 * both.difference.estimate.low, 100 * both.difference.estimate.high
        assert signed_ends(low, high) in row(page, "ahead"), k
        assert f"{signed_number(100 * made.macro[k].difference.estimate.low)} to" in row(page, "mean of relations")


def test_a_slice_in_the_address_filters_everything(study):
    page = compare(study, slice="relation:P19 and not first(beta)=1")
    assert set(listed(page)) == {"q1"} and "over the 1 of 7 questions" in page.text
    broken = compare(study, slice="nothing:3")
    assert "unknown condition 'nothing'" in broken.text and len(listed(broken)) == 7


def test_runs_over_different_questions_are_compared_on_what_they_share(study):
    page = compare(study, a="short")
    assert "the comparison uses the 3 they share" in page.text
    assert cells(page) == {"both": "2", "only_a": "1", "only_b": "0", "neither": "0"}


def test_relevance_by_gold(study):
    page = compare(study, relevance="gold", k=15)
    assert "A passage is relevant if it is a gold passage of the question." in page.text
    # question 4's gold is found by alpha at 12, its answer passage no longer counts
    assert cells(page) == {"both": "3", "only_a": "2", "only_b": "1", "neither": "1"}
    assert cells(compare(study, relevance="gold", k=5))["only_a"] == "1"


def test_nonsense_in_the_address_is_taken_as_not_there(study):
    page = compare(study, k="many", cell="<b>", sort="x", page="-3", relevance="?", a="nobody")
    assert cells(page) == cells(compare(study))
    assert cells(compare(study, k=10_000)) == cells(compare(study, k=15))


def test_a_widget_writes_the_address_and_starts_at_the_first_page(study, monkeypatch):
    page = compare(study, page=3)
    monkeypatch.setenv("BLINDSPOT_STUDY", str(study.folder))
    monkeypatch.setenv("BLINDSPOT_SIGN_IN", "none")
    page.app.selectbox(key="url-relation").select("P50").run()
    assert page.app.query_params["relation"] == "P50" and "page" not in page.app.query_params
    assert set(listed(page)) == {"q3", "q4", "q5", "q6"}


def test_pages_of_questions(tmp_path):
    passages = people(90)
    study = make_study(tmp_path / "many", passages, births(passages))
    questions = study.questions.all()
    for name in ("one", "two"):
        write_run(study, name, [q.id for q in questions], _hits((0,) * len(questions)), {"retriever": name})
    first, last = (Page(study.folder, "compare", sort="order", page=page) for page in (1, 9))
    assert "1–25 of 60 questions" in first.text and "page=3" in " ".join(first.links())
    assert "51–60 of 60 questions" in last.text, "a page beyond the last is the last"


@pytest.mark.parametrize(
    ("page", "shown"), [(1, "1 2 3 … 19"), (4, "1 2 3 4 5 6 … 19"), (9, "1 … 7 8 9 10 11 … 19"), (19, "1 … 17 18 19")]
)
def test_a_gap_between_pages_is_marked(page, shown):
    made = str(pager(470, page, 25, "question", lambda number: f"?page={number}"))
    words = re.sub(r"<[^>]*>", " ", made.split("previous")[1].split("next")[0]).split()
    assert " ".join(words) == shown


def test_a_name_in_a_title_does_not_break_at_its_hyphen():
    said = unbroken("a-dev is ahead of <b>-a-dev.", ["a-dev", "<b>-a-dev", "plain"])
    assert said == '<span class="unbroken">a-dev</span> is ahead of <span class="unbroken">&lt;b&gt;-a-dev</span>.'
    assert unbroken("plain & simple", ["plain"]) == "plain &amp; simple"


def test_fewer_than_two_runs_say_what_to_do(tmp_path):
    study = make_study(tmp_path / "none", people(), ())
    assert "Compare needs two runs" in Page(study.folder, "compare").text


def test_data_never_becomes_markup(study):
    page = compare(study, set="test · toy")
    assert "<script>window.pwned=1</script>" in page.text
    assert "<script" not in page.html and "<img" not in page.html


def test_labels_correct_the_figures(tmp_path):
    """Question 3: alpha finds nothing and beta its answer at 2. A filler that both have first is judged positive."""
    from blindspot.db.events import Choice, LabelEvent
    from blindspot.db.labels import Labels
    from blindspot.db.people import People

    study = hand_made_study(tmp_path / "s")
    assert "Accuracy with people's labels" not in Page(study.folder, "compare", a="alpha", b="beta", k=1).text
    People(study.labels_path).add("Ann")
    labels = Labels(study.labels_path, passages=study.corpus.ordinals)
    labels.add("Ann", LabelEvent("g", "label", "q3", (Choice("filler0", "positive"), Choice("filler1", "negative"))))
    page = Page(study.folder, "compare", a="alpha", b="beta", k=1)
    (fold,) = re.findall(r'<details[^>]*class="panel fold"[^>]*>', page.html)
    assert " open" in fold and "no label changes a figure" not in page.text
    (panel,) = page.part(r'<table class="figures small">.*?</table>')
    alpha, beta = panel.split("alpha")[1].split("beta")
    assert f"{100 * 3 / 7:.1f}" in alpha and f"{100 * 4 / 7:.1f}" in alpha
    assert f"{100 * 2 / 7:.1f}" in beta and f"{100 * 3 / 7:.1f}" in beta


def test_the_interval_is_that_of_the_run_that_is_ahead(tmp_path):
    study = hand_made_study(tmp_path / "s")
    page = Page(study.folder, "relations", runs="beta,alpha", k=5)
    shown = row(page, "place of birth (P19)")
    assert shown.startswith(f"place of birth (P19) 3 66.7 100.0 B +33.3 {ends(1, 0, 3)} 0 1 1.000"), shown


def test_a_random_sample_for_both_runs_is_one_button(study, tmp_path, monkeypatch):
    """The button's job makes a batch whose questions are all of the random audit."""
    import shutil

    from blindspot.backend.core.study import Study
    from blindspot.backend.judging.batches import make_batch
    from blindspot.db.people import People
    from blindspot.db.queue import Queue

    shutil.copytree(study.folder, tmp_path / "own")
    own, sent = Study.open(tmp_path / "own"), []
    People(own.labels_path).add("lea", "lead")
    monkeypatch.setattr("blindspot.backend.core.jobs.submit_request", lambda study, asked, actor: sent.append(asked))
    page = compare(own)
    with monkeypatch.context() as patch:
        patch.setenv("BLINDSPOT_STUDY", str(own.folder))
        patch.setenv("BLINDSPOT_SIGN_IN", "none")
        page.app.button(key="make-sample-alpha-beta").click().run()
    (asked,) = sent
    assert asked.kind.function is make_batch
    make_batch(own, **asked.arguments)
    assert {item.arm for item in Queue(own.labels_path).items("sample-alpha-beta-1")} == {"audit"}
    assert "Judge batch sample-alpha-beta-1" in compare(own).text
