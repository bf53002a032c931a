"""The benchmarks of the app: they send what a browser sends, and their checks are right."""

from __future__ import annotations

import random
from collections import Counter
from importlib.util import find_spec

import pytest

from app import who
from benchmarks import __main__ as every
from benchmarks import large, papers, twenty
from benchmarks.tab import Tab
from db.labels import Labels
from db.people import People
from db.records import Question
from tests.app_pages import hand_made_study


@pytest.fixture
def study(tmp_path):
    return hand_made_study(tmp_path / "toy")


def test_every_part_of_the_whole_run_is_a_command():
    for name, what, _ in every.CPU:
        assert what and (
            find_spec(f"benchmarks.{name}.__main__")
            if find_spec(f"benchmarks.{name}").submodule_search_locations
            else find_spec(f"benchmarks.{name}")
        ), name


def test_a_part_that_fails_is_said_and_the_sum_with_it(capsys):
    assert every._sum([("one", 1190.0, 9.0, ""), ("two", 20.0, 8.0, "failed, exit 1")]) == 1
    said = capsys.readouterr().out
    assert "two" in said and "failed, exit 1" in said and "20.2 minutes, more than 20" in said
    assert every._sum([("one", 60.0, 1.0, "")]) == 0 and "1.0 minutes, within 20" in capsys.readouterr().out


def test_people_wait_for_what_the_server_keeps(study, capsys):
    twenty.together(study, 2, 0.1, 1.0)
    said = capsys.readouterr().out
    for what in (
        "one person alone",
        "the others come in the same moment",
        "all label",
        "all change Compare",
        "Memory of the server",
    ):
        assert what in said
    labels = Labels(study.labels_path)
    given = {event.annotator for event in labels.judgements()}
    assert given == {"person0", "person1"}


def test_a_tab_sees_what_a_browser_would(study):
    People(study.labels_path).add("Ada", "lead")
    with twenty.server_of(study) as (address, _):
        stranger, ada = Tab(address), Tab(address, f"{who.cookie_name(study.labels_path)}=name%3AAda")
        assert "Ada" not in stranger.go("").html and "Ada" in ada.go("").html
        first = ada.go("question", question="q0", a="alpha", b="beta")
        assert (
            "Where is thing 0?" in first.html
            and "Where is thing 1?" in ada.go("question", question="q1", a="alpha", b="beta").html
        )
        small = ada.go("question", question="q0", a="alpha", b="beta")
        assert small.html == first.html and small.bytes == first.bytes, (
            "config.toml turns Streamlit's message cache off"
        )
        assert 'class="flips"' in ada.go("compare", a="alpha", b="beta", page=2).html
        assert "there is no question" in ada.go("question", question="q99", a="alpha", b="beta").html
        stranger.close(), ada.close()


def test_a_person_goes_from_passage_to_passage_until_all_have_a_label():
    def card(key, *given):
        return {
            "key": key,
            "candidates": [{"passage": "a"}, {"passage": "b"}],
            "given": dict.fromkeys(given, "negative"),
        }

    first, second = card("1", "a", "b"), card("2", "a")
    assert twenty._next({"cards": [second, first], "order": ["1", "2"]}) == (second, "b")
    assert twenty._next({"cards": [first], "order": ["1"]}) == (None, "")


def test_large_studies_are_those_that_were_asked_for(tmp_path):
    steps = {**large.STEPS["passages"], **large.STEPS["questions"]}
    lines = {}
    for name, rows in (("make-passages", 300), ("import-passages", 300), ("look-up", 300), ("scan", 300), ("make-questions", 60),
                       ("import-questions", 60), ("make-runs", 60)):  # fmt: skip
        lines |= {line[0]: line for line in steps[name](tmp_path, rows)}
    from backend.core.study import Study

    study = Study.open(tmp_path / "study")
    assert len(study.corpus) == 300 and len(study.questions) == 60 and study.runs() == ["bm25-dev", "dense-dev"]
    passage = study.corpus.passage(random.Random(0).randrange(300))
    assert (
        len(passage.text.split()) == 100 + 3
        and lines["import, and corpus.db"][2] == (tmp_path / "study" / "corpus.db").stat().st_size
    )
    question = study.questions.get("q7")
    gold = study.corpus.passages(study.corpus.ordinals(question.gold).values())
    assert question.answers[0] in gold[0].text


def test_what_is_asked_of_the_papers_experiments_can_be_asked():
    from backend.experiments.running import frozen, named

    for name, given in papers.ASKED_FOR.items():
        setting = named(name).setting(frozen(given))
        assert len(setting.seeds) >= 3 and not setting.small, name
        setting.settings(0), setting.cross_settings(0)


def test_the_part_of_the_real_data_has_two_sets_and_questions_without_labels():
    def asked(split, count):
        return [
            Question(
                f"{split}.{n}",
                f"Question {n}?",
                ("yes",),
                relation=("P26", "P50", "P170", "P19")[n % 4],
                split=split,
                dataset="entityquestions",
                gold=("1",),
            )
            for n in range(count)
        ]

    made = list(papers.drawn(asked("train", 2400), asked("dev", 40)))
    counts = Counter((question.dataset, question.split) for question in made)
    assert counts == {
        ("entityquestions", "train"): 1200,
        ("entityquestions", "dev"): 20,
        ("others", "dev"): 20,
        ("others", "train"): papers.OTHERS,
        ("asked", "unlabelled"): papers.UNLABELLED,
    }
    assert len({question.id for question in made}) == len(made)
    assert {question.relation for question in made if question.dataset == "entityquestions"} == set(papers.RELATIONS)
