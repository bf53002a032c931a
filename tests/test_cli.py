"""The command line: a whole study from files to a report, one line for what goes wrong, exit codes."""

import json
import os
import subprocess
import sys
import time

import pytest
import typer
from typer.testing import CliRunner

from blindspot.backend.retrieval.retriever import RETRIEVERS
from tests.studies import births, people, tiny_bert


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """passages.tsv and questions.jsonl of a small world, and a tiny encoder."""
    folder = tmp_path_factory.mktemp("files")
    passages = people(45)
    rows = ["id\ttext\ttitle", *(f"{p.id}\t{p.text}\t{p.title}" for p in passages)]
    (folder / "passages.tsv").write_text("\n".join(rows) + "\n")
    records = [
        {
            "id": q.id,
            "question": q.text,
            "answers": q.answers,
            "relation": q.relation,
            "subject": q.subject,
            "split": q.split,
            "dataset": q.dataset,
            "gold": q.gold,
        }
        for q in births(passages)
    ]
    (folder / "questions.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    tiny_bert(folder / "tiny")
    return folder


def test_from_files_to_a_report(blindspot, files, tmp_path, monkeypatch):
    study = tmp_path / "study"
    monkeypatch.setenv("BLINDSPOT_STUDY", str(study))

    def done(*arguments):
        code, out, err = blindspot(*arguments)
        assert code == 0, err
        return out

    assert "Next: blindspot import passages" in done("new", study)
    assert "45 passages" in done("import", "passages", files / "passages.tsv")
    assert "was imported before" in done("import", "passages", files / "passages.tsv")
    assert "30 questions" in done("import", "questions", files / "questions.jsonl")
    assert "30 subjects" in done("import", "frequencies", "--count")
    assert "32 dimensions" in done(
        "encoder", "add", "tiny", "--model", files / "tiny", "--pooling", "cls", "--max-tokens", 64
    )
    assert "tiny:" in done("encoder", "list")
    assert "45 passages" in done("index", "bm25")
    assert "similarity dot" in done("index", "dense", "--encoder", "tiny")
    for kind in ("bm25", "dense", "hybrid"):
        assert "30 questions" in done("retrieve", "--with", kind, "--encoder", "tiny", "--split", "dev", "--k", 20)
    tune = ("retrieve", "--with", "hybrid", "--encoder", "tiny", "--k", 20, "--tune", "--name", "tuned", "--split")
    code, _, problem = blindspot(*tune, "dev")
    assert code == 1 and "30 of the run's 30 questions are dev questions" in problem
    other = {"id": "t1", "question": "Who was a weaver?", "answers": ["Arve"], "dataset": "births", "split": "test"}
    (files / "test.jsonl").write_text(json.dumps(other) + "\n")
    assert "1 question" in done("import", "questions", files / "test.jsonl")
    assert "Weight" in done(*tune, "test")

    holds = json.loads(done("status", "--json"))
    assert holds["passages"]["count"] == 45 and set(holds["runs"]) == {
        "bm25-dev",
        "tiny-dev",
        "hybrid-tiny-dev",
        "tuned",
    }
    assert holds["questions"] == [
        {"dataset": "births", "split": "dev", "questions": 30, "with_gold": 30, "with_answers": 30},
        {"dataset": "births", "split": "test", "questions": 1, "with_gold": 0, "with_answers": 1},
    ]
    assert "bm25-dev" in done("status")
    report = json.loads(done("report", "--json", "--run", "bm25-dev", "--by", "relation"))["runs"]["bm25-dev"]
    assert (
        report["k"]["1"]["n"] == 30
        and 0 <= report["k"]["1"]["low"] <= report["k"]["1"]["success"] <= report["k"]["1"]["high"] <= 1
    )
    assert report["relations"]["P19"]["k"]["5"]["n"] == 30 and "1" in report["macro"]["k"]
    assert (
        "bm25-dev" in done("report")
        and done("report", "--csv").startswith("run")
        and "toprule" in done("report", "--latex")
    )
    assert done("export", "run", "bm25-dev", "--format", "trec", "--out", tmp_path / "r.trec").startswith("Wrote")
    assert len((tmp_path / "r.trec").read_text().splitlines()) <= 30 * 20
    done("import", "run", tmp_path / "r.trec", "--split", "dev")
    assert "r" in json.loads(done("report", "--json"))["runs"], "the run has the name of its file, without the ending"
    done("export", "run", "bm25-dev", "--format", "dpr", "--out", tmp_path / "r.json")
    contexts = json.loads((tmp_path / "r.json").read_text())[0]["ctxs"]
    assert set(contexts[0]) == {"id", "title", "text", "score", "has_answer"}
    assert "retrieve" in done("jobs", "list")


def test_a_first_import_into_an_empty_folder_makes_the_study(blindspot, files, tmp_path):
    code, out, err = blindspot("import", "passages", files / "passages.tsv", "--study", tmp_path)
    assert code == 0 and (tmp_path / "study.toml").is_file(), err


@pytest.mark.parametrize(
    "arguments, code, says",
    [
        (["status"], 1, "is not a study"),
        (["import", "passages", "absent.tsv"], 1, "is not a study"),
        (["report", "--json", "--csv", "--study", "STUDY"], 2, "give one of"),
        (["report", "--run", "other", "--study", "STUDY"], 1, "no run 'other'"),
        (["retrieve", "--with", "magic", "--study", "STUDY"], 1, f"known: {', '.join(RETRIEVERS.names())}"),
        (["retrieve", "--with", "bm25", "--study", "STUDY", "--k", "5"], 1, "blindspot index bm25"),
        (["retrieve", "--with", "bm25", "--study", "STUDY", "--k", "100"], 1, "only 45 passages"),
        (["retrieve", "--with", "bm25", "--split", "prod", "--k", "5", "--study", "STUDY"], 1, "known: births, dev"),
        (
            ["retrieve", "--with", "bm25", "--weight", "2", "--k", "5", "--study", "STUDY"],
            1,
            "works with --with hybrid",
        ),
        (["index", "dense", "--encoder", "other", "--study", "STUDY"], 1, "has no encoder 'other'"),
        (["import", "frequencies", "--study", "STUDY"], 2, "give a FILE, or --count"),
        (["import", "questions", "absent.jsonl", "--study", "STUDY"], 1, "absent.jsonl"),
        (
            [
                "encoder",
                "add",
                "x",
                "--model",
                "a",
                "--question-model",
                "b",
                "--passage-model",
                "c",
                "--study",
                "STUDY",
            ],
            2,
            "give --model",
        ),
        (["export", "run", "x", "--format", "xml", "--study", "STUDY"], 1, "--format must be one of"),
        (["jobs", "log", "nothing", "--study", "STUDY"], 1, "no job"),
        (["jobs", "log", "../../x", "--study", "STUDY"], 1, "no job"),
        (["dance"], 2, "No such command"),
        (["retrieve", "--with", "bm25", "--k", "0", "--study", "STUDY"], 2, "--k"),
    ],
)
def test_what_goes_wrong_is_one_line(blindspot, files, tmp_path, monkeypatch, arguments, code, says):
    monkeypatch.chdir(tmp_path)
    study = tmp_path / "study"
    assert blindspot("new", study)[0] == 0
    blindspot("import", "passages", files / "passages.tsv", "--study", study)
    blindspot("import", "questions", files / "questions.jsonl", "--study", study)
    got, _, err = blindspot(*(str(study) if argument == "STUDY" else argument for argument in arguments))
    assert got == code and says in err, err
    assert "Traceback" not in err
    if code == 1:
        assert len(err.strip().splitlines()) - err.count(" ...\n") == 1, err


def test_ctrl_c_ends_with_130_and_says_what_is_kept(blindspot, files, tmp_path, monkeypatch):
    from blindspot.backend.core import jobs

    blindspot("new", tmp_path / "s")

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(jobs, "run", interrupted)
    code, _, err = blindspot("index", "bm25", "--study", tmp_path / "s")
    assert code == 130 and "resumes from there" in err


def test_a_file_that_cannot_be_read_is_one_line(blindspot, tmp_path, monkeypatch):
    from blindspot.backend.core import jobs

    blindspot("new", tmp_path / "s")

    def full(*_, **__):
        raise OSError(28, "No space left on device", str(tmp_path / "s"))

    monkeypatch.setattr(jobs, "run", full)
    code, _, err = blindspot("index", "bm25", "--study", tmp_path / "s")
    assert code == 1 and "No space left" in err and "Traceback" not in err


def test_open_refuses_a_port_in_use(blindspot, tmp_path):
    import socket

    blindspot("new", tmp_path / "s")
    with socket.create_server(("localhost", 0)) as taken:
        code, _, err = blindspot("open", "--study", tmp_path / "s", "--port", taken.getsockname()[1])
    assert code == 1 and "is in use" in err


def test_help_loads_nothing_heavy():
    """The help is fast because it loads no heavy package, so the test checks the imports."""
    code = (
        "import sys; sys.argv = ['blindspot', '--help']\nimport blindspot.app.cli, atexit\n"
        "atexit.register(lambda: print([m for m in ('numpy', 'rich', 'sqlite3', 'torch', 'streamlit') if m in sys.modules]))\nblindspot.app.cli.main()"
    )
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={key: value for key, value in os.environ.items() if not key.startswith("COVERAGE_")},
    )
    assert "Usage: blindspot" in done.stdout and done.stdout.rstrip().endswith("[]"), done.stdout + done.stderr
    print(f"help took {time.monotonic() - started:.2f} s")


def test_the_help_lists_every_command_once_step_by_step():
    from blindspot.app.cli import PATH, app

    named = [name for names in PATH.values() for name in names]
    assert sorted(named) == sorted(typer.main.get_command(app).commands)
    text = CliRunner().invoke(app, ["--help"]).output
    places = [text.index(f"\n{step}:\n") for step in PATH]
    assert places == sorted(places) and "..." not in text[places[0] :]


def test_the_help_of_all_commands_has_each_command_s_own_line():
    """The list is written in one place, because building all commands takes longer than a start may."""
    from blindspot.app.cli import PATH, app

    commands = typer.main.get_command(app).commands
    for named in PATH.values():
        for name, (_, line) in named.items():
            assert line == commands[name].get_short_help_str(limit=1000), name
            assert commands[name].name == name


def test_a_start_imports_the_command_that_was_called_and_no_other():
    code = (
        "import sys, atexit; sys.argv = ['blindspot', 'people', '--help']\nimport blindspot.app.cli\n"
        "here = 'blindspot.app.commands.'\n"
        "atexit.register(lambda: print(sorted(m[len(here):] for m in sys.modules if m.startswith(here))))\n"
        "blindspot.app.cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "Usage: blindspot people" in done.stdout
    assert done.stdout.splitlines()[-1] == "['common', 'people']", done.stdout + done.stderr
