"""The Slices and Relations pages."""

from __future__ import annotations

import re
import shutil
import sqlite3

import pytest

from blindspot.backend.core.study import Study
from blindspot.backend.data.importing.importer import count_frequencies
from blindspot.backend.evaluation import saved_slices
from blindspot.db.jobs import Job
from tests.app_pages import Page, hand_made_study
from tests.studies import make_study, people


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return hand_made_study(tmp_path_factory.mktemp("slices-page") / "toy")


def slices(study, **parameters) -> Page:
    return Page(study.folder, "slices", **({"a": "alpha", "b": "beta"} | parameters))


def relations(study, **parameters) -> Page:
    return Page(study.folder, "relations", **parameters)


def listed(page: Page) -> set[str]:
    return set(re.findall(r'href="question\?question=(q\d)', page.html))


def test_a_slice_in_the_address_shows_its_questions_and_figures(study):
    page = slices(study, slice="word:where and frequency>=20")
    (title,) = page.part("<h1.*?</h1>")
    assert listed(page) == {"q2", "q3", "q4"} and " on 3 questions of 7 " in title
    assert title.startswith("No difference between alpha and beta in the top 5 is established on 3 questions of 7 "), (
        "the answer first"
    )
    assert "short 1 100.0" in page.text, "a run that searched one of them"


def test_a_slice_that_cannot_be_read_says_where(study):
    page = slices(study, slice="relation:P19 word:who")
    assert "expected 'and' or 'or' before 'word'" in page.text and "7 questions in both runs" in page.text
    assert "This slice contains no question of these runs" in slices(study, slice="bucket:3").text


def test_saving_by_name_opening_by_address_and_deleting(study, monkeypatch):
    page = slices(study, slice="relation:P19   and frequency>=10")

    def press(button, name=None):
        monkeypatch.setenv("BLINDSPOT_STUDY", str(study.folder))
        monkeypatch.setenv("BLINDSPOT_SIGN_IN", "none")
        if name:
            page.app.text_input(key="slice-name").set_value(name)
        page.app.button(key=button).click().run()

    press("slice-save", "known births")
    assert saved_slices.saved_slices(study)["known births"].expression == "relation:P19 and frequency>=10"
    assert "Saved as “known births”" in page.text
    press("slice-save", "known births")
    assert "already" in page.text
    address = next(link for link in slices(study).links() if "frequency%3E%3D10" in link)
    assert address.startswith("slices?") and listed(slices(study, slice="relation:P19 and frequency>=10")) == {
        "q1",
        "q2",
    }
    press("slice-delete")
    assert saved_slices.saved_slices(study) == {}


def test_the_finder_says_how_many_it_tried(study):
    assert "No slice has 30 facts" in slices(study).text
    assert "Westfall and Young" in slices(study).text
    assert "Test a group that you suspect" in slices(study).text, "and what to do instead"


def test_slices_need_two_runs(tmp_path):
    none = make_study(tmp_path / "none", people(), ())
    assert "Slices need two runs" in slices(none).text and "No runs yet" in relations(none).text


def test_relations_over_three_runs(study):
    page = relations(study, runs="alpha,beta,short", k=5)
    assert "3 questions measured in all runs" in page.text
    line = next(row for row in page.part(r"<tr[ >](?:(?!</tr>).)*?</tr>") if row.startswith("place of birth (P19)"))
    assert line.startswith("place of birth (P19) 3 100.0 66.7 100.0 A +33.3"), "first the chosen k and the difference"
    assert line.endswith(" 66.7 66.7 66.7"), "then the other k"
    (heads,) = page.part("<thead>.*?</thead>")
    assert heads.startswith("relation n A alpha @5 B beta @5 short @5 ahead only A only B A − B, points"), heads
    assert heads.endswith("p (Holm) A alpha @1 B beta @1 short @1"), heads
    assert '<details class="all-columns deep">' in page.html, "the other k are shown on demand"
    assert (
        "Pale: p above 0.05 (adjusted for all tests of the table; intervals are not) or fewer than 30 facts."
        in page.text
    )
    assert "Not directly comparable" not in page.text, "the runs are not 20 deep"
    assert page.app.get("plotly_chart")


def test_the_clearest_relation_leads_to_its_questions(study):
    page = relations(study, runs="alpha,beta", k=5)
    assert page.part("<h1.*?</h1>") == [
        "alpha is ahead in 1 of 2 relations in the top 5; none is established on its own."
    ]
    assert "Clearest: place of birth (P19), alpha +33.3 (95%: " in page.text
    assert "), uncorrected; not established after correction for 2 relations." in page.text
    assert "compare?a=alpha&b=beta&relation=P19" in page.links()
    assert relations(study, runs="alpha").part("<h1.*?</h1>") == [
        "alpha answers 71.4% of the questions of 2 relations in the top 5."
    ]


def test_relations_along_frequency(study):
    page = relations(study, runs="alpha,beta", view="frequency", k=5)
    assert (
        "Source of mentions: the question files" in page.text
        and "Eight groups of about equal cumulative frequency" not in page.text
    )
    assert any("slice=frequency" in link for link in page.links())
    assert page.part("<h1.*?</h1>") == ["Success@5 by the frequency of the subject"], "too few questions to say more"
    mass = relations(study, runs="alpha,beta", view="frequency", k=5, buckets="cut")
    assert "Eight groups of about equal cumulative frequency" in mass.text
    assert "times the subject is mentioned in the question files" in str(page.app.get("plotly_chart")[0].proto)
    assert page.part("<thead>.*?</thead>")[0].endswith("ahead only A only B p (Holm)"), "the better run's lead"
    assert relations(study, runs="alpha", view="frequency").app.get("plotly_chart")


def test_data_never_becomes_markup(study):
    for page in (
        slices(study, slice="split:test"),
        slices(study, slice="<script>1</script>"),
        relations(study, runs="<script>"),
    ):
        assert "<script" not in page.html and "<img" not in page.html


def test_mentions_are_counted_by_a_button(study, tmp_path, monkeypatch):
    """Without frequencies, Relations offers to count the subjects in the passages; the job's failure stands below."""
    own = Study.open(shutil.copytree(study.folder, tmp_path / "own"))
    with sqlite3.connect(own.questions.path) as connection:
        connection.execute("UPDATE question SET frequency = NULL, bucket = NULL")
    sent = []
    monkeypatch.setattr("blindspot.backend.core.jobs.submit_request", lambda study, asked, actor: sent.append(asked))
    page = relations(own, view="frequency")
    assert "have no frequencies" in page.text
    with monkeypatch.context() as patch:
        patch.setenv("BLINDSPOT_STUDY", str(own.folder))
        patch.setenv("BLINDSPOT_SIGN_IN", "none")
        page.app.button(key="count-frequencies").click().run()
    (asked,) = sent
    assert asked.kind.function is count_frequencies
    failed = Job(
        "j", asked.kind.kind, asked.arguments, "failed", None, None, None, None, 0, None, "", "disk full", None
    )
    monkeypatch.setattr("blindspot.backend.core.jobs.recent", lambda *_: [failed])
    assert "disk full" in relations(own, view="frequency").text
    monkeypatch.setattr("blindspot.backend.core.jobs.recent", lambda *_: [])
    count_frequencies(own, **asked.arguments)
    assert "have no frequencies" not in relations(own, view="frequency").text
