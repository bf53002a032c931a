"""The benchmarks of the app: they send what a browser sends, and their checks are right."""

from __future__ import annotations

import gzip
import json
import random
import sys
from collections import Counter
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks import __main__ as every
from benchmarks import app as pages
from benchmarks import large, papers, twenty, whole
from benchmarks.tab import Tab
from blindspot.app import cli, who
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.records import Question
from tests.app_pages import hand_made_study

ROOT = Path(__file__).parents[1]


@pytest.fixture
def study(tmp_path):
    return hand_made_study(tmp_path / "toy")


def test_every_benchmark_finds_the_names_that_it_imports():
    modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in (ROOT / "benchmarks").rglob("*.py")]
    for module in modules:
        import_module(module)
    assert {"benchmarks.check", "benchmarks.gpu.inputs"} <= set(modules)


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


def test_the_signs_of_a_shown_page_are_words_of_the_app():
    """`benchmarks.app` looks for a class or a heading on each page that it times."""
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "app").rglob("*.py"))
    for page, sign in pages.SIGN.items():
        assert sign.removeprefix('class="').removesuffix('"') in source, page


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
    from blindspot.backend.core.study import Study

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


@pytest.mark.parametrize("ending", [".tsv", ".tsv.gz"])
def test_a_whole_study_goes_through_the_commands(tmp_path, monkeypatch, capsys, ending):
    """The commands run in this process here; `test_the_cost_of_a_command` runs a process."""
    rows = [f"{i}\tTown {i} has a harbour and {i} lighthouses.\tTown {i}\n" for i in range(120)]
    passages, questions = tmp_path / f"psgs{ending}", tmp_path / "entityquestions"
    with (gzip.open if ending.endswith("gz") else open)(passages, "wt") as file:
        file.write("id\ttext\ttitle\n" + "".join(rows))
    asked = [{"question": f"Which country is Town {i} located in?", "answers": ["harbour"]} for i in range(8)]
    (questions / "test").mkdir(parents=True)
    (questions / "test" / "P17.test.json").write_text(json.dumps(asked))
    commands = []

    def in_this_process(study, *command):
        commands.append(" ".join(command[:2]))
        result = CliRunner().invoke(cli.app, [*command, "--study", str(study)])
        assert result.exit_code == 0, result.output
        return whole.Cost(1.0, 0.5, 100.0)

    monkeypatch.setattr(whole, "blindspot", in_this_process)
    given = ["--questions", str(questions)] if ending == ".tsv" else []
    lines = whole.main([str(passages), *given, "--sample", "5", "--no-peer", "--json", str(tmp_path / "table.json")])
    assert commands == [
        "import passages", "import questions", "index bm25", "retrieve --with", "import frequencies", "report --run",
    ]  # fmt: skip
    assert [(line.rows, line.unit) for line in lines] == [
        (120, "passages"), (5, "questions"), (120, "passages"), (5, "questions"), (120, "passages"), (5, "questions"),
    ]  # fmt: skip
    assert json.loads((tmp_path / "table.json").read_text())[2]["ours"]["disk"] > 0
    said = capsys.readouterr().out
    assert "index for BM25" in said and "120 passages" in said and "all of ours" in said


def test_the_cost_of_a_command(capsys):
    """A child's processor time and memory count; a command that fails ends the benchmark with its output."""
    child = "import time; data = bytearray(300 << 20); sum(range(10_000_000)); time.sleep(0.5)"
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    cost = whole.run([sys.executable, "-c", nested])
    assert cost.processor > 0.05 and cost.wall > 0.5 and 300 < cost.peak < 600
    with pytest.raises(SystemExit, match="exit code 3:\nno such file"):
        whole.run([sys.executable, "-c", "print('no such file'); raise SystemExit(3)"])


def test_the_ratio_to_the_peer_is_in_the_table(capsys):
    whole.show([whole.Line("index", 100, "passages", whole.Cost(2, 1, 50, 10**6), whole.Cost(3, 4, 60, 2 * 10**6))])
    said = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["peer", "/", "ours", "1.50", "4.00"] in said
    assert ["index", "100", "passages", "2.0", "s", "1.0", "s", "50", "50", "1.0"] in said


def test_what_is_asked_of_the_papers_experiments_can_be_asked():
    from blindspot.backend.experiments.running import experiment_named, hashable_options

    for name, given in papers.ASKED_FOR.items():
        setting = experiment_named(name).setting(hashable_options(given))
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
