"""The Quality page as a person gets it."""

from __future__ import annotations

import re

import pytest
from streamlit.testing.v1 import AppTest

from blindspot.app.components.quality.audit import _group as group_name
from blindspot.backend.judging.audits import audit
from blindspot.backend.judging.batches import batch_of_pairs, make_batch
from blindspot.backend.judging.quality import quality
from blindspot.backend.judging.settings import ArmShares
from blindspot.backend.text.number_words import quantity
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.queue import Queue
from blindspot.db.records import Passage, Question
from tests.annotators import annotate
from tests.app_pages import HOSTILE, words
from tests.overlap import RUN, encyclopedia_study
from tests.studies import make_study

ROLES = {"lea": "lead", "ada": "adjudicator", "ann": "annotator"}


def script(folder: str, name: str | None) -> None:
    from blindspot.app.components.quality.view import render
    from blindspot.backend.core.study import Study
    from blindspot.db.people import People

    study = Study.open(folder)
    render(study, People(study.labels_path).get(name) if name else None)


class Page:
    def __init__(self, study, who: str | None = "lea", **parameters: object):
        app = AppTest.from_function(script, default_timeout=60, args=(str(study.folder), who))
        for key, value in parameters.items():
            app.query_params[key] = str(value)
        app.run()
        assert not app.exception, app.exception
        self.html = "\n".join(each.proto.body for each in app.get("html") if not each.proto.body.startswith("<style"))
        self.text = words(self.html)

    def rows(self, first: str) -> list[str]:
        """Return the visible text of the table rows with this beginning."""
        return [
            row
            for row in map(words, re.findall(r"<tr(?: [^>]*)?>.*?</tr>", self.html, re.DOTALL))
            if row.startswith(first)
        ]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Two batches with audits, second labels and repeats, worked by three people of different skill; a bad question."""
    made, truth = encyclopedia_study(tmp_path_factory.mktemp("quality") / "study")
    for name, role in ROLES.items():
        People(made.labels_path).add(name, role)
    skills = {"ann": 0.95, "ben": 0.8, "cid": 0.6}
    for seed, (name, mix) in enumerate({"one": ArmShares(0.5, 0, 0), "two": ArmShares(0.2, 0.4, 0.2)}.items()):
        make_batch(made, name, [RUN], size=60, depth=10, mix=mix, seed=seed)
        annotate(made, truth, skills, seed=seed)
    pairs = [(question, passage) for question in list(truth)[:10] for passage in sorted(truth[question])[:2]]
    batch_of_pairs(made, "checked", pairs, origin="pseudo-positives")
    annotate(made, truth, {"dora": 1.0}, seed=9)
    drawn = next(item.question for item in Queue(made.labels_path).items("one") if item.arm == "audit")
    Labels(made.labels_path).add("ann", LabelEvent("bad", "bad_question", drawn))
    return made


def test_only_who_may_see_others_sees_it(study):
    assert "Please sign in" in Page(study, None).text
    assert not {"alpha", "vote", "Batches", "ben"} & set(re.findall(r"\w+", Page(study, None).html))
    assert "All labels: " in Page(study, "ada").text and "All labels: " in Page(study, "lea").text


def disagreements(page: Page) -> str:
    """The text of the panel of disagreements."""
    return words(page.html[page.html.index("<h2>Disagreements") : page.html.index('id="judges"')])


def test_disagreements_follow_the_agreement_and_hide_names(study):
    found = quality(study)
    page = Page(study)
    assert f"Disagreements on {len(found.disputes)} questions" in page.text
    assert page.text.count(f"Settle {sum(len(each.passages) for each in found.disputes)} passages") == 1
    assert page.html.count('class="button main"') == 1 and "How good are the judges?" not in page.text, (
        "none has scores"
    )
    assert page.html.count('href="training?tab=judges"') == 1
    ids = re.findall(r'href="judge\?adjudicate=1&amp;question=([^"]*)"[^>]*title', page.html)
    assert ids == [each.question for each in found.disputes[:8]], "each row leads to its question"
    heads = re.findall("<h2>(.*?)(?:</h2>|<span)", page.html)
    assert heads.index("False negatives among unlabelled passages") < heads.index("Agreement")
    assert heads.index("Agreement") < heads.index("Annotators") < heads.index("Disagreements ")
    assert "positive" in disagreements(page) and "×1" not in page.text
    assert not any(name in disagreements(page).split() for name in ("ann", "ben", "cid"))
    shown = disagreements(Page(study, names=1))
    votes = found.disputes[0].passages[0].votes
    assert all(f"{label} {', '.join(people)}" in shown for label, people in votes.items())


def test_the_pages_of_disagreements(study):
    found = quality(study).disputes
    last = -(-len(found) // 8)
    page = Page(study, page=last)
    assert f"of {len(found)} questions" in page.text and f"question={found[-1].question}" in page.html
    assert Page(study, page=10_000).text == page.text, "a page beyond the last is the last"
    assert Page(study, page="x", by="?", batch="nobody's").html == Page(study).html


def test_the_last_group_of_ranks_ends_at_the_depth_of_the_audit():
    ends = {10: "ranks 6-10", 6: "rank 6", 20: "ranks 6-20", None: "ranks 6-20"}
    assert {depth: group_name("rank", "ranks 6-20", depth) for depth in ends} == ends
    assert group_name("rank", "rank 1", 10) == "rank 1"


def test_figures_of_agreement_and_of_people_are_those_of_the_store(study):
    found, page = quality(study), Page(study)
    four = found.together.four
    said = f"four labels {four.value:.2f} {four.low:.2f} to {four.high:.2f} {100 * four.agreed:.0f}% {four.passages:,} {four.questions:,}"
    assert page.rows("four labels") == [said]
    rate = audit(study).overall.positive
    settings = [each.settings for each in Queue(study.labels_path).batches() if each.name in audit(study).batches]
    frames = {(" or ".join(each["runs"]), each["depth"]) for each in settings}
    drawn = "".join(f" in the top {depth} of {runs}" for runs, depth in frames) if len(frames) == 1 else ""
    assert re.search("<h1>(.*?)</h1>", page.html)[1] == (
        f"{100 * rate.value:.1f}% of the unlabelled passages{drawn} answer their question "
        f"(95%: {100 * rate.low:.1f} to {100 * rate.high:.1f}), from {quantity(rate.questions, 'random question')} with {quantity(rate.passages, 'passage')}."
    )
    assert "All labels: " in page.text
    agree = f", alpha {four.value:.2f} (95%: {four.low:.2f} to {four.high:.2f}) on {four.passages:,} passages; "
    assert agree in page.text
    assert len(page.rows("ann and ben")) == 1
    ann = next(each for each in found.work if each.name == "ann")
    row = [each for each in page.rows("ann ") if "and" not in each][0]
    assert row.startswith(f"ann {ann.labels:,} {ann.questions:,} {ann.seconds:.1f} {ann.per_hour:,.0f}")
    assert f"{ann.same} of {ann.repeats}" in row
    drift = found.drift
    assert f"{100 * drift.value:.1f}% ({100 * drift.low:.1f}–{100 * drift.high:.1f}) got the same label" in page.text


def test_the_audit_shows_both_rates_with_intervals_and_the_stopping_rule(study):
    found = audit(study)
    page = Page(study)
    for rate in (found.overall.positive, found.overall.with_related):
        interval = f"(95%: {100 * rate.low:.1f} to {100 * rate.high:.1f})"
        assert re.search(rf"{100 * rate.value:.1f}% [^.;]*{re.escape(interval)}", page.text), interval
    assert "RocketQA: about 70%" in page.text and "more" in page.text
    assert f"{found.drawn - found.bad - found.waiting} of {found.drawn} questions judged completely" in page.text
    for by in ("bucket", "rank"):
        shown = Page(study, by=by)
        for group, rates in found.by[by].items():
            rate = rates.positive
            group = group_name(by, group, 10)  # the depth of both batches
            assert shown.rows(f"{group} {rate.questions:,} {rate.passages:,} {100 * rate.value:.1f}"), group
    relation = next(iter(found.by["relation"]))
    assert f'href="compare?relation={relation}"' in Page(study, by="relation").html
    assert page.html == Page(study, by="rank").html, "the ranks until somebody chooses"
    alone = audit(study, "one").overall.positive
    assert f"{100 * alone.value:.1f}%" in Page(study, batch="one").text


def test_batches(study):
    page = Page(study)
    assert page.rows("one ") == ["one 30 by priority, 30 random audit 60 of 60 ✓ done"]
    assert "1 bad question by 1 annotator" in re.sub(r"(bad question) .*?( by)", r"\1\2", page.text)


def test_a_study_without_labels_says_what_to_do(tmp_path):
    made, _ = encyclopedia_study(tmp_path / "empty")
    People(made.labels_path).add("lea", "lead")
    assert "No labels yet" in Page(made).text and "a lead creates a batch of questions" in Page(made).text
    make_batch(made, "only", [RUN], size=20)
    page = Page(made)
    assert "0 of 2 questions judged completely, 2 remaining" in page.text and "No passage is disputed" in page.text
    assert "Agreement can be measured only on passages that two people judged blind" in page.text


def test_one_disputed_label_and_nothing_else(tmp_path):
    """The smallest store: one passage, two people; its titles and questions are hostile and never become markup."""
    made = make_study(tmp_path / "one", [Passage("p", HOSTILE, "x")], [Question("q", HOSTILE)])
    for name, role in {"lea": "lead", "<b>": "annotator"}.items():
        People(made.labels_path).add(name, role)
    labels = Labels(made.labels_path, passages=made.corpus.ordinals)
    for name, label in (("lea", "positive"), ("<b>", "negative")):
        labels.add(name, LabelEvent(f"g{name}", "label", "q", (Choice("p", label),)))
    page = Page(made, names=1)
    assert "<script>window.pwned=1</script>" in page.text and "negative <b>" in page.text
    ours = page.html.replace("<b>2 labels</b>", "").replace("<b>1 passage</b>", "")
    assert not [mark for mark in ("<script", "<img", "<b>") if mark in ours]
    assert "no batch has an audit yet" in page.text and "No batches yet" in page.text
