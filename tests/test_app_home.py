from __future__ import annotations

import ast
import re
import subprocess
import sys

import pytest

from blindspot.backend.core import jobs, summary
from blindspot.backend.core.study import Study
from blindspot.db.jobs import Jobs
from blindspot.db.people import People
from tests.app_pages import Page, hand_made_study
from tests.studies import births, make_study, people


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return hand_made_study(tmp_path_factory.mktemp("home") / "toy")


def test_a_new_study_says_what_to_type(tmp_path):
    Study.create(tmp_path / "fresh", "Fresh")
    page = Page(tmp_path / "fresh")
    assert "Fresh is a new study" in page.text
    assert page.app.code[0].value == f"blindspot import passages FILE --study {tmp_path / 'fresh'}"
    assert not page.app.button


def test_no_study_is_one_line_that_says_what_to_do(tmp_path):
    page = Page(tmp_path / "nowhere")
    assert "is not a study" in page.text and "blindspot new" in page.text


def test_a_broken_study_toml_is_one_line_that_names_the_file(tmp_path):
    study = Study.create(tmp_path / "broken")
    study.settings_path.write_text("k = = 3")
    page = Page(study.folder)
    assert f"{study.settings_path}: is not valid TOML" in page.text


def test_the_next_steps_start_as_jobs_and_stand_there_as_commands(tmp_path, monkeypatch):
    passages = people()
    study = make_study(tmp_path / "bare", passages, births(passages))
    started = []
    monkeypatch.setattr(
        jobs, "submit_request", lambda study, asked, actor: started.append((asked.kind.kind, asked.arguments, actor))
    )
    page = Page(study.folder)
    assert page.app.code[0].value == f"blindspot index bm25 --study {study.folder}"
    monkeypatch.setenv("BLINDSPOT_STUDY", str(study.folder))
    monkeypatch.setenv("BLINDSPOT_SIGN_IN", "none")
    page.app.button(key="start-1").click().run()
    assert started == [("index bm25", {}, None)]


def test_why_a_job_failed_is_shown_to_those_who_may_start_it(tmp_path):
    """The text, and the log, may name files of the server."""
    passages = people()
    study = make_study(tmp_path / "failed", passages, births(passages))
    for name, role in (("ada", "adjudicator"), ("lea", "lead")):
        People(study.labels_path).add(name, role)
    Jobs(study.labels_path).create("j1", "train reader", {"name": "x"})
    Jobs(study.labels_path).end("j1", "failed", "/home has: secret.txt")
    study.path("jobs", "j1").mkdir(parents=True)
    (study.path("jobs", "j1") / "log").write_text("Traceback: secret.txt")
    lead, adjudicator = (Page(study.folder, "", name) for name in ("lea", "ada"))
    assert "secret.txt" in lead.text and "secret" in lead.app.code[-1].value
    assert "train reader" in adjudicator.text and "secret" not in adjudicator.text
    assert not [block for block in adjudicator.app.code if "secret" in block.value]


def test_a_step_that_lacks_its_index_cannot_be_started(tmp_path):
    passages = people()
    study = make_study(tmp_path / "half", passages, births(passages))
    index = study.path("indexes", "minilm")
    index.mkdir(parents=True)
    (index / "manifest.json").write_text('{"kind": "dense index", "made": "2026-01-01"}')
    page = Page(study.folder)
    buttons = {button.help: button for button in page.app.button if button.key.startswith("start-")}
    assert not buttons["Start: retrieve dense over dev with minilm"].disabled
    assert all(
        button.disabled
        for help, button in buttons.items()
        if help.startswith(("Start: retrieve bm25", "Start: retrieve hybrid"))
    )


def test_a_failed_job_shows_its_line_and_a_running_one_its_progress(tmp_path, monkeypatch):
    study = Study.create(tmp_path / "busy")
    records = Jobs(study.labels_path)
    records.create("one", "index bm25", {})
    records.start("one")
    records.end("one", "failed", "Java said: <b>no space left</b>")
    records.create("two", "index dense", {"name": "minilm"})
    records.adopt("two", 1, None, "another machine", "another boot")
    records.start("two")
    records.beat("two", 250, 1000, "encoding")
    page = Page(study.folder)
    assert "failed index bm25" in page.text and "Java said: <b>no space left</b>" in page.text
    assert "running index dense minilm encoding: 250 of 1,000" in page.text
    assert 'aria-valuenow="25"' in page.html
    cancel = next(button for button in page.app.button if button.label == "Cancel")
    study.path("jobs", "two").mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("BLINDSPOT_STUDY", str(study.folder))
    monkeypatch.setenv("BLINDSPOT_SIGN_IN", "none")
    cancel.click().run()
    assert (study.path("jobs", "two") / "cancel").exists()


def test_finished_jobs_stand_on_home_alone(tmp_path):
    study = make_study(tmp_path / "s", passages := people(10), births(passages, "dev"))
    records = Jobs(study.labels_path)
    for name, state in (("one", "done"), ("two", "failed")):
        records.create(name, f"index {name}", {})
        records.start(name)
        records.end(name, state, "")
    home, training = (Page(study.folder, page).text for page in ("", "training"))
    assert "1 finished job done index one" in home and "failed index two" in home
    assert "finished job" not in training and "failed index two" in training


def test_what_the_study_holds(study):
    text = Page(study.folder).text
    assert "passages 37 passages.tsv" in text
    assert "dev · toy 6 6 6" in text and "test · toy 1 1 1" in text and "all 7 7 7" in text


def test_runs_stand_with_their_accuracy_and_its_interval(study):
    page = Page(study.folder)
    alpha = next(row for row in page.part(r"<tr>(?:(?!</tr>).)*?</tr>") if row.startswith("alpha"))
    # 3 of 7 at 1 and 5 of 7 at 5; Wilson's interval of 3/7 is 15.8 to 75.0
    assert " 7 42.9 15.8–75.0 71.4 " in alpha
    assert "A passage is relevant if its text contains an answer (rule: dpr; titles are not searched)." in page.text


def test_runs_of_a_set_are_sorted_by_the_headline_measure(study):
    page = Page(study.folder)
    table = re.search(r'<table class="figures runs.*?</table>', page.html, re.S)
    assert table is not None
    (head,) = re.findall(r'<th[^>]*aria-sort="descending"[^>]*>.*?</th>', table.group(), re.S)
    assert "S@5" in head, "its head says so"
    rows = re.findall(r"<tr>(?:(?!</tr>).)*?</tr>", table.group(), re.S)
    shares = [float(found[1]) for line in rows if len(found := re.findall(r'title="([\d.]+)% of', line)) > 1]
    assert len(shares) > 1 and shares == sorted(shares, reverse=True)


def test_two_runs_are_picked_and_compared_by_links(study):
    page = Page(study.folder, a="short", b="beta")
    assert "compare?a=short&b=beta" in page.links()
    assert "./?a=short&b=alpha" in page.links()
    assert "./?a=beta&b=short" in page.links(), "picking B's run as A swaps the two"


@pytest.mark.parametrize(
    "page", ["", "compare", "relations", "slices", "map", "question", "judge", "training", "quality"]
)
def test_every_page_of_a_fresh_study_says_what_comes_and_the_one_thing_to_do(tmp_path, page):
    """A new study has nothing: each page names its purpose and the import of passages, then of questions."""
    study = Study.create(tmp_path / "fresh")
    fresh = Page(study.folder, page)
    assert f"blindspot import passages FILE --study {study.folder}" in fresh.text + " ".join(
        each.value for each in fresh.app.code
    )
    assert "retrieve --with" not in fresh.text, "one thing to do, not a later one"
    about = re.search(r"(?s)<p>(.{40,}?)</p>", fresh.html)
    assert about is not None, "what the page will show"


def test_an_adjudicator_is_told_that_a_lead_prepares_the_study(tmp_path):
    study = Study.create(tmp_path / "fresh")
    for name, role in (("lea", "lead"), ("ada", "adjudicator")):
        People(study.labels_path).add(name, role)
    assert "blindspot import passages" in Page(study.folder, "compare", "lea").text
    page = Page(study.folder, "compare", "ada")
    assert "A lead prepares the study" in page.text and "blindspot import" not in page.text


def test_the_findings_are_shown_before_the_rest_is_computed(study, monkeypatch):
    """Streamlit sends each part of a page when it is made, so the order is what a person waits for."""

    def fails(opened):
        raise ValueError("not yet")

    monkeypatch.setattr(summary, "summary", fails)
    page = Page(study.folder)
    assert "alpha" in page.part('<div class="findings">.*?</h1>')[0] and "Compare the runs" in page.text
    assert "This page failed: ValueError: not yet" in page.text and "Study contents" not in page.text


def test_a_lead_sets_the_unit_of_observation(tmp_path, monkeypatch):
    study = hand_made_study(tmp_path / "s")
    page = Page(study.folder, "", None, a="alpha", b="beta")
    assert "generalise to other facts of these relations" in page.text and "7 questions, " in page.text
    monkeypatch.setenv("BLINDSPOT_STUDY", str(study.folder))
    monkeypatch.setenv("BLINDSPOT_SIGN_IN", "none")
    page.app.selectbox(key="unit").set_value("relation").run()
    assert study.settings.unit == "relation" and not page.app.exception
    assert "7 questions of " in page.text and "to relations like these" in page.text
    people = People(study.labels_path)
    people.add("lea")
    people.set_role("lea", "lead")
    people.add("ada", "adjudicator")
    assert not [box for box in Page(study.folder, "", "ada").app.selectbox if box.key == "unit"]


def test_the_cost_of_a_slow_run_is_in_whole_milliseconds():
    """In three significant digits 3,057 would read 3.06e+03."""
    from blindspot.app.components.run_table import _cost
    from blindspot.backend.retrieval.cost import Cost

    for milliseconds, shown in ((3057.2, "3,057 ms"), (99.95, "100 ms"), (78.41, "78.4 ms"), (0.0512, "0.0512 ms")):
        assert shown in str(_cost(Cost(per_second=18.0, p50_ms=milliseconds, n=20, index_bytes=None)))


def test_a_server_imports_the_first_page_before_it_is_asked_for():
    """Without running it: Streamlit runs a page's file for a visitor."""
    code = (
        "import sys; from blindspot.app.server_process import import_first_page; import_first_page();"
        "print({name.removeprefix('blindspot.app.') for name in sys.modules} "
        "& {'main', 'components.findings', 'pages.home', 'pandas', 'scipy.special', 'scipy.stats'})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    needed_by_tests = ["pandas", "scipy.special", "scipy.stats"]
    assert sorted(ast.literal_eval(done.stdout)) == ["components.findings", "main", *needed_by_tests]
