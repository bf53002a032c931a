"""The Check page in its states, the dropped file, and what the pages of a check leave unsaid."""

from __future__ import annotations

import html
import io
import json
import shutil
from dataclasses import replace

import pytest

from blindspot.app.components.check.file_panel import NAMES
from blindspot.app.components.files import _keep_upload
from blindspot.app.main import PAGES
from blindspot.backend.checking.check import check, open_check
from blindspot.backend.checking.jobs import (
    cleaned_file,
    cleaned_paths,
    import_training_file,
    judge_drawn,
    write_cleaned,
)
from blindspot.backend.checking.pairs import negative_pairs
from blindspot.backend.checking.sample import VAGUE, read_sample, unjudged_pairs
from blindspot.backend.core import consent, jobs
from blindspot.backend.core.consent import NeedsConsent
from blindspot.backend.core.made_from import is_check
from blindspot.backend.core.study import Study
from blindspot.backend.data.importing.uploads import store_upload, upload_name
from blindspot.backend.judges.llm.judge import add_llm_judge
from blindspot.db.errors import BadInput, BlindspotError, Refused
from blindspot.db.people import People
from tests.app_pages import Page, lacked_words
from tests.checks import FALSE, judge, rows
from tests.llm_server import ChatServer, answer, pair_of


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """A check whose pairs are drawn and not judged."""
    folder = tmp_path_factory.mktemp("checked")
    (folder / "mined.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows()))
    found = check(folder / "mined.jsonl", folder / "study")
    found.draw(150)
    People(found.study.labels_path).add("Ann", "lead")
    People(found.study.labels_path).add("Ben", "annotator")
    return found.study


@pytest.fixture
def study(drawn, tmp_path):
    return Study.open(shutil.copytree(drawn.folder, tmp_path / "study"))


def shown(page):
    """The page without its style sheets."""
    return page.text.split("/* ")[0]


def test_before_any_label_the_page_shows_facts_and_the_first_pair(study):
    page = Page(study.folder, "check")
    assert "How many of 480 negatives are false? No pair is judged yet." in shown(page)
    assert "rate's interval will be about " in html.unescape(
        shown(page)
    ) and "(simulated for rates of 5% and 40%)" in shown(page)
    assert 'data-key="j"' in page.html and "Judge the first pair" in shown(page) and "judge" in page.links()
    assert "rows 120" in shown(page) and "False negatives inside the batch" in shown(page)
    assert page.part(r"<nav.*?</nav>")[0].startswith("Check Home")


def test_a_few_labels_show_the_rate_and_its_trace(study):
    judge(study, 3)
    page = Page(study.folder, "check", "Ann")
    rate = open_check(study).rate()
    so_far = f"{rate.false} of 3 judged pairs {'is' if rate.false == 1 else 'are'}"
    possible = f"for all, the 95% interval is {100 * rate.low:.0f} to {100 * rate.high:.0f}%"
    assert f"Too early to say how many of 480 negatives are false: {so_far}; {possible}." in shown(page)
    assert "Judge the next pair" in shown(page) and "expected" not in shown(page)
    (figure,) = page.app.get("plotly_chart")
    traced = json.loads(figure.proto.spec)["data"]
    assert {each["name"] for each in traced} == {"upper end", "lower end", "rate"}
    assert [len(each["x"]) if isinstance(each["x"], list) else 3 for each in traced] == [3, 3, 3]


def test_while_it_is_too_early_no_rule_is_chosen(study):
    """With so few labels a rule may look good by chance: the file is written without one unless a person picks it."""
    judge(study, 30)
    rate, curve = open_check(study).rate(), open_check(study).rules()
    assert rate.half_width > VAGUE and curve.rows and curve.chosen is None and "too early" in curve.why
    page = Page(study.folder, "check", "Ann")
    assert "Too early to say" in shown(page) and "★" not in shown(page) and "The best rule" not in shown(page)
    (option,) = [each for each in page.app.selectbox if each.label == "Keep a negative only if"]
    assert option.value == "none" and "although nobody judged" not in shown(page)
    page = Page(study.folder, "check", "Ann", step="rule")
    assert "Judge the next pair" in shown(page)
    assert [(each.label, each.proto.type) for each in page.app.button] == [("Write the cleaned file", "secondary")]
    text = curve.rows[0].rule.as_text()
    assert f"--rule {text}" in " ".join(code.value for code in Page(study.folder, "check", "Ann", rule=text).app.code)


def test_the_rule_of_the_written_file_stays_chosen_and_its_card_names_it(study):
    judge(study, 150)
    curve = open_check(study).rules()
    other = next(row.rule for place, row in enumerate(curve.rows) if place != curve.chosen and row.dropped)
    for rule, words in (
        (other.as_text(), f"a negative is kept only if {other.condition}"),
        (None, "No rule was applied."),
    ):
        write_cleaned(study, rule=rule)
        page = Page(study.folder, "check", "Ann", step="rule")
        (option,) = [each for each in page.app.selectbox if each.label == "Keep a negative only if"]
        assert option.value == (rule or "none")
        card = list(cleaned_paths(study, cleaned_file(study)))[2].read_text()
        assert words in card and "By the labels another rule is best." in card
        download = page.app.get("download_button")[0].proto
        assert (download.label, download.type) == ("Download the cleaned file", "primary")
        assert "Write it again" not in [each.label for each in page.app.button]
        text = curve.rows[curve.chosen].rule.as_text()
        page = Page(study.folder, "check", "Ann", step="rule", rule=text)
        (button,) = [each for each in page.app.button if each.label == "Write it again"]
        assert button.proto.type == "primary" and "With other choices than those above" in shown(page)


def test_a_label_that_the_rate_does_not_count_yet_is_named_and_makes_the_file_old(study):
    judge(study, 100)
    write_cleaned(study)
    page = Page(study.folder, "check", "Ann", step="file")
    assert "Download the cleaned file" in [each.proto.label for each in page.app.get("download_button")]
    judge(study, 2, skip=3)
    page = Page(study.folder, "check", "Ann")
    sentence = "2 further labels are of pairs that were drawn later. The rate counts them when the pairs before them are judged"
    assert "from 100 judged pairs" in shown(page) and sentence in shown(page)
    assert "This page suggests to judge on until it is at most 10 points wide." in shown(page), "the forecast stays"
    page = Page(study.folder, "check", "Ann", step="file")
    assert "2 pairs judged since: write it again." in shown(page)
    assert [each.label for each in page.app.button if "rite" in each.label] == ["Write it again"]
    write_cleaned(study)
    card = list(cleaned_paths(study, cleaned_file(study)))[2].read_text()
    assert sentence in card and "Judged by people: 100 pairs" in card


def test_who_judges_blind_sees_no_rate_and_no_rules(study):
    judge(study, 60)
    page = Page(study.folder, "check", "Ben")
    assert "false (" not in shown(page) and "max_score" not in page.html and not page.app.get("plotly_chart")
    nobody = shown(Page(study.folder, "check"))
    assert "Sign in to see the rate, or to judge" in nobody and "blind" not in nobody


def test_the_primary_action_leads_from_the_rule_to_the_file(study):
    judge(study, 150)
    found = open_check(study)
    rate, curve = found.rate(), found.rules()
    chosen = curve.rows[curve.chosen]
    page = Page(study.folder, "check", "Ann")
    rate_words = f"{rate.estimate:.1%} (95%: {100 * rate.low:.1f} to {100 * rate.high:.1f}), from 150 judged pairs."
    said = f"About {480 * rate.estimate:,.0f} of 480 negatives are false: {rate_words}"
    assert said in shown(page) and "See the rule" in shown(page)
    assert "check?step=rule#rules" in page.links()

    page = Page(study.folder, "check", "Ann", step="rule")
    [row] = page.part(r'<tr class="chosen".*?</tr>')[:1]
    assert chosen.rule.as_text() in row.replace("= ", "=") and html.unescape(chosen.rule.condition) in row
    assert f"The best rule by 150 labels keeps a negative if {chosen.rule.condition}" in html.unescape(shown(page))
    of_best = curve.bounds(curve.best)
    bounds = f"at least {of_best.drops_at_least:.1%} of what it drops are false, and at most {of_best.most:.1%} of what it keeps."
    assert bounds in shown(page)
    [option] = [each for each in page.app.selectbox if each.label == "Keep a negative only if"]
    assert chosen.rule.condition in option.options and "judge=" not in "".join(option.options)
    assert chosen.rule.argument in [code.value for code in page.app.code]
    made = open_check(study).outcome(curve, chosen.rule)
    dropped = html.unescape(page.part(r'<details class="dropped".*?</details>')[0])
    assert (
        made.by_rule > 5 == len(made.examples) and f"See 5 of the {made.by_rule} pairs that the rule drops" in dropped
    )
    for question, passage in made.examples:
        assert study.questions.get(question).text in dropped and f"question?q={question}" in page.links()
        assert study.corpus.passage(int(passage[1:]) - 1).text[:150] in dropped
    buttons = {each.label: each.proto.type for each in page.app.button}
    assert buttons == {"Write the cleaned file": "primary", "Draw 200 more pairs": "secondary"}

    write_cleaned(study, rule=chosen.rule.as_text())
    page = Page(study.folder, "check", "Ann", step="rule")
    assert "Written: " in shown(page)
    assert [each.proto.label for each in page.app.get("download_button")][:4] == ["Download the cleaned file", *NAMES]
    written = cleaned_file(study)
    for path in cleaned_paths(study, written):
        assert path.stat().st_size
    assert written.relabelled == rate.false and written.judged == 150
    kept = [json.loads(line) for line in next(cleaned_paths(study, written)).read_text().splitlines()]
    assert len(kept) == written.rows and set(kept[0]) == set(rows()[0])


def test_a_file_that_changed_since_is_not_written_back(study):
    manifest = study.folder / "check" / "manifest.json"
    about = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**about, "sha256": "0" * 64}))
    with pytest.raises(Refused, match="changed since it was checked"):
        jobs.run(write_cleaned, study)
    manifest.write_text(json.dumps(about))
    with pytest.raises(BadInput, match="is no rule"):
        jobs.run(write_cleaned, study, rule="nonsense")
    assert cleaned_file(study) is None


def test_judging_leads_to_the_rate(study):
    following = r'<a[^>]*class="next".*?</a>'
    page = Page(study.folder, "judge", "Ann")
    assert page.part(following) == ["Next: see the rate and the rule"] and "check" in page.links()
    assert not Page(study.folder, "judge", "Ben").part(following), "who judges blind is not led back to the facts"


def test_the_menu_offers_no_page_about_what_retrievers_find(study):
    menu = Page(study.folder, "", "Ann").part(r'<nav aria-label="Pages">.*?</nav>')[0]
    assert [title in menu for title in ("Check", "Judge", "Training")] == [True] * 3, menu
    assert [title in menu for title in ("Compare", "Relations", "Slices", "Map")] == [False] * 4, menu


@pytest.mark.parametrize("page", ["", "check", "question"])
def test_pages_of_a_check_do_not_speak_of_what_the_file_lacks(study, page):
    text = shown(Page(study.folder, page, "Ann")).split("Training", 1)[1].lower()
    for word in ("frequenc", "no relation", "none known", "with answers", "contains an answer", "no known answer"):
        assert word not in text, text


def test_a_language_model_judges_the_drawn_pairs_once_somebody_allowed_it(study):
    checked = open_check(study).checked_study
    drawn = unjudged_pairs(read_sample(checked), negative_pairs(checked.occurrences), {})
    texts = [study.corpus.passage(int(passage[1:]) - 1).text for _, passage in drawn]
    strange = next(text for text in texts[10:] if FALSE not in text)

    def garbled(number, body):
        return (200, {}, answer("A fine passage.", body["model"])) if strange in pair_of(body)[1] else None

    with ChatServer(lambda question, passage: 3 if FALSE in passage else 0, garbled) as server:
        assert "language model" not in shown(Page(study.folder, "check", "Ann"))
        add_llm_judge(study, "llm", server.url, "m", settings={"retries": 0, "price_in": 1.0, "price_out": 2.0})
        page = Page(study.folder, "check", "Ann")
        assert "150 requests" in shown(page) and "cost 0." in shown(page) and f":{server.port}" in shown(page)
        (button,) = [each for each in page.app.button if each.label == "Let llm judge 150 pairs"]
        assert button.disabled and f"blindspot consent give http://127.0.0.1:{server.port}" in shown(page)
        with pytest.raises(NeedsConsent):
            jobs.run(judge_drawn, study, "llm")
        assert server.requests == 0
        consent.give_consent(study, server.url)
        page = Page(study.folder, "check", "Ann")
        (button,) = [each for each in page.app.button if each.label == "Let llm judge 150 pairs"]
        assert not button.disabled
        jobs.run(judge_drawn, study, "llm")
        rate = replace(open_check(study), judge="llm").rate()
        assert rate.judged == 150 and open_check(study).rate().judged == 0, "people's labels stay their own"
        assert rate.false == sum(FALSE in text for text in texts)
        assert rate.unsettled == texts.count(strange) == 1, "the answer that cannot be read is open, and ends nothing"
        page = Page(study.folder, "check", "Ann")
        assert f"Judged by the judge llm: 150 pairs, {rate.false} false" in shown(page)
        assert "No pair is judged yet" in shown(page)
        assert "llm" not in shown(Page(study.folder, "check", "Ben")), "who judges blind sees no judge"


@pytest.mark.parametrize("judged", [0, 150])
def test_no_page_of_a_check_speaks_of_answers_relations_or_frequencies(study, judged):
    judge(study, judged)
    for title, name in PAGES.items():
        if title != "Relations":
            page = Page(study.folder, "" if name == "home" else name, "Ann")
            assert not lacked_words(page), name
            assert "relations" not in page.links()


# Dropping a file


def test_names_of_uploads_lead_nowhere_else(tmp_path):
    study = Study.create(tmp_path / "s")
    content = json.dumps(rows()[0]).encode()
    for name in ("../../out.jsonl", "/etc/x.jsonl", "..\\..\\win.jsonl", "a b\x00ü.jsonl", "...jsonl", ".jsonl.jsonl"):
        kept = store_upload(study, name, io.BytesIO(content))
        assert kept == study.folder / "uploads" / kept.name and kept.read_bytes() == content
    assert {path.parent.name for path in tmp_path.rglob("*.jsonl")} == {"uploads"}
    assert len(upload_name(f"{'x' * 500}.CSV")) < 100 and upload_name("X.CSV") == "X.csv"
    for name in ("model.pkl", "noending", ".jsonl", "a.jsonl/"):
        with pytest.raises(Refused, match="cannot be read"):
            upload_name(name)
    with pytest.raises(BlindspotError, match="not among the uploaded files"):
        jobs.run(import_training_file, study, "../study.toml")


def test_a_dropped_file_becomes_the_check_of_an_empty_study(tmp_path):
    study = Study.create(tmp_path / "s")
    People(study.labels_path).add("Ann", "lead")
    page = Page(study.folder, "")
    assert "check a training file" in shown(page) and len(page.app.get("file_uploader")) == 1
    assert page.part(r"<nav.*?</nav>")[0].startswith("Home")
    bad = io.BytesIO(b'{"some": 1}\n')
    bad.name = "bad.jsonl"
    _, found, fault = _keep_upload(study, bad)
    assert not found and "no training data of a known form" in fault
    assert not list((study.folder / "uploads").iterdir()), "what cannot be read is not kept"
    wrong = b"".join(json.dumps(row).encode() + b"\n" for row in rows()) + b'{"query": 3}\n'
    with pytest.raises(BadInput):
        jobs.run(import_training_file, study, store_upload(study, "wrong.jsonl", io.BytesIO(wrong)).name)
    assert not study.has_corpus and not is_check(study), "the study is still empty"

    good = "".join(f"{json.dumps(row)}\n" for row in rows()).encode()
    jobs.run(import_training_file, study, store_upload(study, "good.jsonl", io.BytesIO(good)).name)
    assert is_check(study) and "Judge the first pair" in shown(Page(study.folder, "check"))
    assert not Page(study.folder, "").app.get("file_uploader")
    with pytest.raises(Refused, match="holds passages"):
        jobs.run(import_training_file, study, "good.jsonl")
