"""The benchmarks: each imports, those of the app send what a browser sends, and a whole study goes through."""

from __future__ import annotations

import gzip
import json
import sys
from importlib import import_module
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks import twenty, whole
from benchmarks.tab import Tab
from blindspot.app import cli, who
from blindspot.db.labels import Labels
from blindspot.db.people import People
from tests.app_pages import hand_made_study

ROOT = Path(__file__).parents[1]


@pytest.fixture
def study(tmp_path):
    return hand_made_study(tmp_path / "toy")


def test_every_benchmark_finds_the_names_that_it_imports():
    modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in (ROOT / "benchmarks").rglob("*.py")]
    for module in modules:
        import_module(module)
    assert {"benchmarks.check", "benchmarks.gpu.search"} <= set(modules)


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_cost_of_a_command(capsys):
    """A child's processor time and memory count; a command that fails ends the benchmark with its output."""
    child = "import time; data = bytearray(300 << 20); sum(range(10_000_000)); time.sleep(0.5)"
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    cost = whole.run([sys.executable, "-c", nested])
    assert cost.processor > 0.05 and cost.wall > 0.5 and 300 < cost.peak < 600
    with pytest.raises(SystemExit, match="exit code 3:\nno such file"):
        whole.run([sys.executable, "-c", "print('no such file'); raise SystemExit(3)"])
