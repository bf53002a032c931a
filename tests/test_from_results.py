"""A study from retriever output: its contents, that it is complete or absent, and the limits that it states."""

from __future__ import annotations

import json
import sys

import pytest

from blindspot.app import cli
from blindspot.backend.core.summary import summary
from blindspot.backend.data.importing.from_results import study_from_results
from blindspot.backend.evaluation.report import report
from blindspot.backend.retrieval.next_steps import next_steps
from blindspot.db.errors import BadInput, Refused
from blindspot.db.records import Passage
from tests.app_pages import Page
from tests.format_files import PASSAGES, QUESTIONS, contexts


def dpr(*entries):
    return [{"question": text, "answers": answers, "ctxs": ctxs} for text, answers, ctxs in entries]


def ctx(id, text, score=1.0, title="T", **more):
    return {"id": id, "title": title, "text": text, "score": str(score), **more}


def write(folder, name, value):
    (folder / name).write_text(json.dumps(value, ensure_ascii=False))
    return folder / name


@pytest.fixture
def results(tmp_path):
    one = write(tmp_path, "dpr_output.json", dpr(*((q.text, list(q.answers), contexts("dpr")) for q in QUESTIONS)))
    found = [
        {"docid": f"wiki:{p.id}", "score": 5.0 - i, "text": f'"{p.title}"\n{p.text}', "has_answer": False}
        for i, p in enumerate(PASSAGES)
    ]
    asked = {q.id: {"question": q.text, "answers": list(q.answers), "contexts": found} for q in reversed(QUESTIONS)}
    return [one, write(tmp_path, "pyserini.out.json", asked)]


def test_two_files_over_the_same_questions_become_two_runs(tmp_path, results):
    made = study_from_results(tmp_path / "s", results, "Mine")
    study = made.study
    assert study.settings.name == "Mine" and study.runs() == ["dpr_output", "pyserini.out"]
    assert [p.id for p in study.corpus.scan()] == ["2", "3", "4", "wiki:1", "wiki:5"]
    assert len(study.corpus) == made.passages
    texts = [(p.title, p.text) for p in study.corpus.passages([0, 3])]
    assert texts == [(p.title, p.text) for p in (PASSAGES[1], PASSAGES[0])]
    asked = [(q.text, q.answers, q.split, q.gold) for q in study.questions.all()]
    assert asked == [(q.text, q.answers, "test", ()) for q in QUESTIONS]
    first, second = study.run("dpr_output"), study.run("pyserini.out")
    assert second.question_ids == first.question_ids[::-1]
    assert second.hits.ordinals.tolist() == [[3, 0, 1, 2, 4]] * 3 and second.hits.scores[0].tolist() == [5, 4, 3, 2, 1]
    assert first.answers().tolist() == [[True, False, True], [False, True, False], [False, False, False]]
    flags = [file.flags for file in made.files]
    assert (flags[0].compared, flags[0].only_file, flags[0].only_here) == (9, 2, 2)
    assert (flags[1].compared, flags[1].only_file) == (15, 0) and flags[1].only_here == int(second.answers().sum())
    figures = report(study, ks=[1, 3]).runs
    assert [run.success[3].value for run in figures] == [pytest.approx(2 / 3), pytest.approx(1)]
    said = summary(study)["from_results"]
    assert [file["file"] for file in said["files"]] == ["dpr_output.json", "pyserini.out.json"]
    assert "live questions" in said["cannot"][0] and "5 hits" in said["cannot"][1]
    assert [step.command for step in next_steps(study)] == ["blindspot report", "blindspot open"]
    # Every page of the app opens it.
    assert "dpr_output" in Page(study.folder).text
    assert "dpr_output" in Page(study.folder, "compare", a="dpr_output", b="pyserini.out").text
    shown = Page(study.folder, "question", question=study.questions.all()[0].id, a="dpr_output", b="pyserini.out")
    assert "Arve Furset" in shown.text and "Ada Lovelace" in shown.text


def test_equal_scores_stay_as_the_file_has_them(tmp_path):
    first = [ctx("a", "one"), ctx("b", "two"), ctx("c", "three", 2.0)]
    second = [ctx("b", "two"), ctx("a", "one")]
    path = write(tmp_path, "tied.json", dpr(("Who?", ["x"], first), ("Where?", ["y"], second)))
    study = study_from_results(tmp_path / "s", [path]).study
    lists = study.run("tied").hits.ordinals.tolist()
    ids = [[study.corpus.passage(ordinal).id for ordinal in row if ordinal >= 0] for row in lists]
    assert ids == [["c", "a", "b"], ["b", "a"]]


def test_from_the_command_line(tmp_path, results, monkeypatch, capsys):
    def blindspot(*arguments):
        monkeypatch.setattr(sys, "argv", ["blindspot", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert not end.value.code
        return capsys.readouterr().out

    out = blindspot("new", tmp_path / "s", "--from-run", results[0], "--from-run", results[1])
    assert "Run dpr_output: 3 questions, k=3" in out and "4 of 9 flags of dpr_output.json disagree" in out
    out = blindspot("status", "--study", tmp_path / "s")
    assert "What it cannot do" in out and "live questions" in " ".join(out.split())
    figures = json.loads(blindspot("report", "--study", tmp_path / "s", "--json", "--k", "1,3"))
    assert figures["runs"]["dpr_output"]["k"]["3"]["n"] == 3


def test_a_questions_file_gives_relations_and_frequencies(tmp_path, monkeypatch, capsys):
    """Joined by text, and where a text comes twice by a common answer; a question that the file lacks stays as it is."""
    asked = [("Where was Ann born?", ["Oslo"]), ("Who is Ben?", ["a fisher"]), ("Who knows?", ["x"])]
    file = write(tmp_path, "out.json", dpr(*((text, answers, [ctx("p1", "Oslo.")]) for text, answers in asked)))
    rows = [
        ("a", "Where was Ann  born?", "Oslo", "P19", "Ann", {"frequency": 7}),
        ("b", "Who is Ben?", "a king", "P1", "Ben", {}),
        ("c", "Who is Ben?", "a fisher", "P106", "Ben", {"bucket": 3}),
        ("d", "Where is Oslo?", "Norway", "P17", "Oslo", {}),
    ]
    questions = tmp_path / "questions.jsonl"
    with questions.open("w") as out:
        for id, text, answer, relation, subject, more in rows:
            row = {"id": id, "question": text, "answers": [answer], "relation": relation, "subject": subject, **more}
            print(json.dumps(row), file=out)
    made = study_from_results(tmp_path / "s", [file], questions=questions)
    facts = [(q.relation, q.subject, q.frequency, q.bucket, q.split) for q in made.study.questions.all()]
    known = [("P19", "Ann", 7, None, "test"), ("P106", "Ben", None, 3, "test")]
    assert facts == [*known, (None, None, None, None, "test")]
    assert made.joined == 2 and len(made.study.questions) == 3
    assert [group.key for group in report(made.study, by="relation").runs[0].groups] == ["P19", "P106"]
    monkeypatch.setattr(
        sys, "argv", ["blindspot", "new", str(tmp_path / "t"), "--from-run", str(file), "--questions", str(questions)]
    )
    with pytest.raises(SystemExit):
        cli.main()
    out = " ".join(capsys.readouterr().out.split())
    assert "2 of 3 questions are in the questions file." in out and "import frequencies FILE" in out
    other = write(tmp_path, "other.json", dpr(("Another?", ["y"], [ctx("p1", "Oslo.")])))
    with pytest.raises(BadInput, match="holds none of the questions"):
        study_from_results(tmp_path / "u", [other], questions=questions)
    assert not (tmp_path / "u").exists()


def test_a_question_that_comes_twice_is_two_questions_in_every_file(tmp_path):
    twice = dpr(("q?", ["a"], [ctx("1", "a")]), ("q?", ["b"], [ctx("2", "b")]))
    made = study_from_results(tmp_path / "s", [write(tmp_path, "a.json", twice), write(tmp_path, "b.json", twice)])
    assert [q.answers for q in made.study.questions.all()] == [("a",), ("b",)]
    assert made.study.run("a").question_ids == made.study.run("b").question_ids == ["a.0", "a.1"]


def test_answers_that_differ_between_files_are_counted(tmp_path):
    files = [
        write(tmp_path, f"{name}.json", dpr(("q’s?", [name], [ctx("1", "a text")]), ("r", ["x"], []))) for name in "ab"
    ]
    made = study_from_results(tmp_path / "s", files)
    assert [file.changed for file in made.files] == [0, 1] and made.study.questions.all()[0].answers == ("a",)
    assert made.study.run("a").hits.ordinals.tolist() == [[0], [-1]]


def test_two_files_of_one_name(tmp_path):
    (tmp_path / "x").mkdir()
    files = [write(folder, "out put.json", dpr(("q", ["a"], [ctx("1", "a")]))) for folder in (tmp_path, tmp_path / "x")]
    assert study_from_results(tmp_path / "s", files).study.runs() == ["out-put", "out-put-2"]


BAD = (
    ([dpr(("q", [], [ctx("1", "one")])), dpr(("q", [], [ctx("1", "other")]))], r"'1' has another text than in .*0\.json:1; do"),
    ([dpr(("q", [], [ctx("1", "one"), ctx("2", "x")]), ("r", [], [ctx("1", "one", title="U")]))], "another text than"),
    ([dpr(("q", [], [ctx("1", "one"), ctx("1", "one")]))], "'1' occurs twice"),
    ([dpr(("q", [], [{"id": "1", "score": 1}]))], "'1' has no text; import the passages"),
    ([dpr(("q", ["\u200b"], [ctx("1", "one")]))], "nothing to match"),
    ([dpr(("q", [], [ctx("a b", "one")]))], "contains a space"),
    ([dpr(("q", [], [{"id": "1", "text": "x", "title": ""}]))], "no 'score'"),
    ([[]], "does not look like|no questions"),
    ([dpr(("q", [], []))], "no passages"),
)  # fmt: skip


def test_what_is_wrong_is_one_line_and_leaves_nothing(tmp_path):
    (tmp_path / "empty").mkdir()
    for values, message in BAD:
        files = [write(tmp_path, f"{number}.json", value) for number, value in enumerate(values)]
        before = sorted(tmp_path.iterdir())
        with pytest.raises(BadInput, match=message) as error:
            study_from_results(tmp_path / "s", files)
        assert str(files[-1]) in str(error.value) and "\n" not in str(error.value)
        assert sorted(tmp_path.iterdir()) == before
        with pytest.raises(BadInput):
            study_from_results(tmp_path / "empty", files)
        assert list((tmp_path / "empty").iterdir()) == []


def test_skip_bad_leaves_out_and_lists(tmp_path):
    first = [ctx("1", "a"), ctx("a b", "x"), ctx("2", "b")]
    rows = dpr(("q", ["a"], first), ("", [], []), ("r", ["a"], [ctx("1", "other")]))
    made = study_from_results(tmp_path / "s", [write(tmp_path, "x.json", rows)], skip_bad=True)
    assert (made.passages, made.files[0].left_out) == (2, 3)
    assert len(made.files[0].left_out_file.read_text().splitlines()) == 3
    assert made.files[0].left_out_file.is_relative_to(made.study.folder)
    assert made.study.run("x").hits.ordinals.tolist() == [[0, 1], [-1, -1]]


def test_spaces_alone_make_no_other_passage(tmp_path):
    rows = dpr(("q", ["a"], [ctx("1", "a b")]), ("r", ["a"], [ctx("1", "a  b ")]))
    study = study_from_results(tmp_path / "s", [write(tmp_path, "x.json", rows)]).study
    assert study.corpus.passage(0) == Passage("1", "T", "a b")


def test_what_is_refused(tmp_path, results):
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "x").write_text("")
    for folder, files, split, says in (
        (tmp_path / "used", results, "test", "not empty"),
        (results[0], results, "test", "is a file"),
        (tmp_path / "s", [], "test", "no results file"),
        (tmp_path / "s", results, "prod", "one of train"),
    ):
        with pytest.raises(Refused, match=says):
            study_from_results(folder, files, split=split)
    trec = tmp_path / "run.trec"
    trec.write_text("11 Q0 2 1 9.5 tag\n")
    with pytest.raises(BadInput, match="ids without texts .*blindspot import run"):
        study_from_results(tmp_path / "s", [trec])
    assert not (tmp_path / "s").exists()


def test_a_stop_leaves_nothing(tmp_path, results):
    def stop(done, total, doing):
        if doing == "matching answers":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        study_from_results(tmp_path / "s", results, progress=stop)
    assert not (tmp_path / "s").exists()


def test_import_run_takes_the_name_from_the_file(tmp_path, results, monkeypatch, capsys):
    """No --name is asked for: the file's name becomes the run's, with a dash for what a name cannot hold."""
    made = study_from_results(tmp_path / "s", [results[0]])
    question, passage = made.study.questions.all()[0].id, made.study.corpus.passage(0).id
    run = tmp_path / "my system.trec"
    run.write_text(f"{question} Q0 {passage} 1 3.5 theirs\n")
    monkeypatch.setattr(sys, "argv", ["blindspot", "import", "run", str(run), "--study", str(tmp_path / "s")])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert not end.value.code, capsys.readouterr().out
    assert set(made.study.runs()) == {"dpr_output", "my-system"}
