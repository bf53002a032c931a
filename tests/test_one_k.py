"""Pages and commands that state a figure about the same thing state the same one: one k, one population, one count."""

import json
import re

import pytest
from typer.testing import CliRunner

from blindspot.app.cli import app
from blindspot.backend.demo.making import RUNS
from blindspot.backend.evaluation.settings import HEADLINE_K
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People
from tests.app_pages import Page
from tests.studies import copied

A, B = RUNS["bm25"], RUNS["dense"]


def printed(study, *arguments):
    result = CliRunner().invoke(app, [*arguments, "--study", str(study.folder)])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def shown(small_demo):
    pair = {"a": A, "b": B}
    given = {
        "home": pair,
        "compare": pair,
        "slices": pair,
        "relations": {"runs": f"{A},{B}"},
        "question": {**pair, "why": 1},
    }
    return {name: Page(small_demo.folder, name, **parameters) for name, parameters in given.items()}


@pytest.fixture(scope="module")
def pages(shown):
    return {name: page.text for name, page in shown.items()}


@pytest.fixture(scope="module")
def rows(shown):
    """Returns the first table row of a page that starts with some words, as text."""

    def row(page: str, start: str) -> str:
        return next(each for each in shown[page].part(r"<tr[ >](?:(?!</tr>).)*?</tr>") if each.startswith(f"{start} "))

    return row


@pytest.fixture(scope="module")
def compared(small_demo):
    return json.loads(printed(small_demo, "compare", A, B, "--json"))


def test_every_page_and_command_opens_at_the_headlines_k(small_demo, pages, compared):
    assert f"Success@{HEADLINE_K}, %" in pages["home"]
    assert f"A finds in top {HEADLINE_K}" in pages["compare"]
    assert f"{A} @{HEADLINE_K} B {B} @{HEADLINE_K} ahead" in pages["relations"]
    assert f" in the top {HEADLINE_K}: " in pages["question"], "the causes of a miss"
    assert compared["k"] == HEADLINE_K
    assert json.loads(printed(small_demo, "misses", A, B, "--json"))["k"] == HEADLINE_K
    assert json.loads(printed(small_demo, "compare", A, B, "--find-slices", "--json"))["k"] == HEADLINE_K
    said = " ".join(CliRunner().invoke(app, ["misses", "--help"]).output.split())
    assert f"default {HEADLINE_K}" in said, said


def test_the_difference_and_the_questions_are_the_same_on_all_pages(pages, compared):
    at = compared["at"][str(HEADLINE_K)]
    points, sign = f"{100 * abs(at['difference']):.1f}", "+" if at["difference"] > 0 else "-"
    where = f"in the top {HEADLINE_K} ("
    (headline,) = re.findall(rf"is {points} points ahead of \S+ {re.escape(where)}", pages["compare"])
    assert headline and f"by {points} points" in compared["conclusion"]
    assert f"({sign}{points} points)" in pages["slices"], "the difference that slices explain"
    whole = pages["relations"][pages["relations"].index("all questions") :]
    assert f"{'A' if at['difference'] > 0 else 'B'} +{points}" in whole[:400]
    questions = re.search(r"[\d,]+ questions about [\d,]+ facts", pages["compare"]).group()
    assert questions in pages["home"] and questions in pages["slices"]


def test_success_of_each_run_is_the_same_on_every_page_and_command(small_demo, rows, compared):
    report = json.loads(printed(small_demo, "report", "--k", "1,5,20,100", "--json"))["runs"]
    for side, name in (("a", A), ("b", B)):
        at = [report[name]["k"][k]["success"] for k in ("1", "5", "20", "100")]
        assert at[1] == compared["at"][str(HEADLINE_K)][side]["success"]
        said = [f"{100 * value:.1f}" for value in at]
        figures = {page: re.findall(r"(?<!\S)\d+\.\d(?!\S)", re.sub(r"k1 \S+ b \S+", "", rows(page, start))) for page, start in (
            ("home", name), ("compare", f"{side.upper()} {name}"), ("relations", "all questions"))}  # fmt: skip
        assert figures["compare"] == said, "without the intervals, which are ranges"
        assert "|".join(said) in "|".join(figures["home"]), "beside the retriever's settings and cost"
        # Relations shows both runs at the chosen k first, then A at the other k, then B.
        at_chosen, others = figures["relations"][:2], figures["relations"][2:]
        one, *deeper = others[:3] if side == "a" else others[3:]
        assert [one, at_chosen["ab".index(side)], *deeper] == said
        n = report[name]["n"]
        assert rows("home", name).count(f"{n:,}") == 1 and f"Run {name}: {n:,} questions" in printed(
            small_demo, "status"
        )
        assert rows("relations", "all questions").startswith(f"all questions {n:,} ({report[name]['units']:,} facts)")


def test_misses_are_those_of_compare(small_demo, pages):
    cells = {
        name: int(re.search(rf"([\d,]+) [\d.]+% {name}", pages["compare"]).group(1).replace(",", ""))
        for name in ("only A finds", "only B finds", "neither finds")
    }
    runs = {each["run"]: each for each in json.loads(printed(small_demo, "misses", A, B, "--json"))["runs"]}
    assert runs[A]["misses"] == cells["only B finds"] + cells["neither finds"]
    assert runs[B]["misses"] == cells["only A finds"] + cells["neither finds"]


def test_labels_are_counted_alike_on_every_page(small_demo, tmp_path):
    """A label is a person's last one of a passage; one that was corrected counts once. Pairs are said to be pairs."""
    study = copied(small_demo, tmp_path / "demo")
    People(study.labels_path).add("Lea", "lead")
    labels = Labels(study.labels_path, passages=study.corpus.ordinals)
    question, passage = next((each.question, each.passage) for each in labels.judgements())
    for number, label in enumerate(("positive", "negative")):
        labels.add("Lea", LabelEvent(f"lea-{number}", "label", question, (Choice(passage, label),)))
    given = len(labels.judgements())
    assert sum(event.kind == "label" for event in labels.events()) == given + 1, "one was corrected"
    team, training = Page(study.folder, "team", "Lea"), Page(study.folder, "training", "Lea")
    said = f"{given:,} labels by 1 person and 2 simulated annotators"
    assert f"All labels: {said.replace(' labels', '')}, alpha " in Page(study.folder, "quality", "Lea").text
    assert f"The {said}, with those that were undone or replaced." in team.text
    assert f"{given:,} labels, all on training questions." in training.text
    by_person = re.findall(r"</span></td><td>[\d,]+</td><td>([\d,]+)</td>", team.html)
    assert sum(int(count.replace(",", "")) for count in by_person) == given
