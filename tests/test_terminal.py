"""Text from files reaches neither the terminal as a command nor a spreadsheet as a formula."""

import csv
import io
import sys
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table

from blindspot.app import cli, progress
from blindspot.app.console import Terminal
from blindspot.app.terminal import CleanStream, clean
from blindspot.backend.core.runs import write_run
from blindspot.backend.core.spreadsheets import write_csv
from blindspot.backend.core.study import Study
from blindspot.db.corpus import CorpusWriter
from blindspot.db.records import Hits, Question

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31mred\x1b[0m\rover\x08\u202ebackwards\x7f"
FORBIDDEN = {chr(code) for code in [*range(9), *range(11, 32), *range(127, 160)]} | {"\u202e"}


@given(st.text())
def test_clean_leaves_line_ends_tabs_and_letters(text):
    made = clean(text)
    assert not FORBIDDEN & set(made) and len(made) == len(text)
    assert all(a == b for a, b in zip(text, made, strict=True) if a in "\n\t" or a.isalnum())


def test_a_stream_and_richs_tables_are_cleaned_and_colours_stay():
    raw = io.StringIO()
    print(HOSTILE, file=CleanStream(raw))
    assert not FORBIDDEN & set(raw.getvalue())
    raw = io.StringIO()
    console = Terminal(file=raw, force_terminal=True, color_system="standard", width=200)
    table = Table("[bold]head[/bold]", title=HOSTILE)
    table.add_row(HOSTILE)
    console.print(table)
    shown = raw.getvalue()
    assert "\x1b[1m" in shown  # our own sequences
    assert "\x1b]0;" not in shown and "\x1b[2J" not in shown and not {"\x07", "\x9b", "\r", "\u202e"} & set(shown)


@pytest.fixture(scope="module")
def hostile_study(tmp_path_factory):
    """Two runs over questions whose relations are terminal commands or spreadsheet formulas."""
    study = Study.create(tmp_path_factory.mktemp("hostile") / "study", f"study {HOSTILE}")
    with CorpusWriter(study.folder / "corpus.db") as writer:
        writer.add_rows([("1", HOSTILE, "Oslo lies there"), ("2", "t", "nothing")])
        writer.finish(f"file {HOSTILE}", "0")
    relations = [HOSTILE, '=HYPERLINK("http://x","y")', "+cmd|' /C calc'!A0", "@SUM(1)", "-2+3", "P19"]
    study.questions.add(
        [
            Question(f"q{i}", f"Where {i}? {HOSTILE}", ("Oslo",), relation=relation, dataset=f"d{HOSTILE}", split="dev")
            for i, relation in enumerate(relations)
        ]
    )
    ids = [f"q{i}" for i in range(len(relations))]
    for name, order in (("a", [0, 1]), ("b", [1, 0])):
        hits = Hits(np.array([order] * len(ids), np.int32), np.array([[2, 1]] * len(ids), np.float32))
        write_run(study, name, ids, hits, {"retriever": "imported"})
    return study.folder


COMMANDS = (
    "status", "status --json", "report --by relation", "report --by relation --csv", "report --run gone",
    "compare a b --by relation", "compare a b --by relation --csv", "compare a b --by relation --json",
)  # fmt: skip


def test_no_escape_sequence_reaches_the_terminal(hostile_study, monkeypatch):
    monkeypatch.setenv("BLINDSPOT_STUDY", str(hostile_study))
    monkeypatch.setenv("COLUMNS", "200")
    for command in COMMANDS:
        out, err = io.StringIO(), io.StringIO()
        with monkeypatch.context() as patch, suppress(SystemExit):
            patch.setattr(sys, "argv", ["blindspot", *command.split()])
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            cli.main()
        assert out.getvalue() + err.getvalue() and not FORBIDDEN & set(out.getvalue() + err.getvalue()), command
        if command.endswith("--csv"):
            assert "HYPERLINK" in out.getvalue()
            rows = csv.reader(io.StringIO(out.getvalue()))
            assert not any(cell.startswith(("=", "+", "@")) for row in rows for cell in row)


def test_numbers_stay_numbers_and_formulas_become_text():
    text = io.StringIO()
    rows = [{"a": -1.5, "b": "-0.25"}, {"a": "=1+1", "b": "-1+cmd"}, {"a": "\t=1", "c": "left out"}]
    write_csv(text, ["a", "b"], rows)
    assert list(csv.reader(io.StringIO(text.getvalue()))) == [
        ["a", "b"],
        ["-1.5", "-0.25"],
        ["'=1+1", "'-1+cmd"],
        ["'\t=1", ""],
    ]


def test_progress_in_a_log_is_a_line_a_step_and_a_rate_every_ten_seconds(capsys, monkeypatch):
    clock = iter([0.0, 4.0, 12.0, 13.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with progress.terminal_progress() as watch:
        for done, doing in ((0, "encoding"), (40, "encoding"), (120, "encoding"), (0, "searching")):
            watch(done, 600, doing)
    # After 12 s 120 of 600 are done: 10/s, 48 s left. The report after 4 s comes too early for a line.
    assert capsys.readouterr().err.splitlines() == [
        "encoding ...",
        "encoding: 120 of 600 (10/s, 48 s left)",
        "searching ...",
    ]


def test_progress_in_a_terminal_is_a_bar_that_names_the_step(monkeypatch):
    shown = io.StringIO()
    shown.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with progress.terminal_progress() as watch:
        watch(1, 4, "encoding\x1b]0;owned\x07")
        watch(2, None, "searching")
    assert "encoding" in shown.getvalue() and "searching" in shown.getvalue() and "\x1b]0;" not in shown.getvalue()
