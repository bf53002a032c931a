"""Every standard format: recognised, read, written and read back; faults are named by file and line."""

from __future__ import annotations

import gzip
import json
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from blindspot.backend.core.registry import Registry
from blindspot.backend.core.study import Study
from blindspot.backend.data.exporting import export_run
from blindspot.backend.data.formats import REGISTRY, contexts, find_format, formats
from blindspot.backend.data.formats.base import ImportedQuestion, Options, RunEntry
from blindspot.backend.data.formats.json_stream import JsonStream
from blindspot.backend.data.importing.importer import import_passages, import_questions
from blindspot.backend.data.importing.qrels import import_qrels
from blindspot.backend.data.importing.runs import import_run
from blindspot.backend.evaluation.report import report
from blindspot.db.connection import connect, read_records
from blindspot.db.errors import BadInput, Refused
from blindspot.db.gold import GoldMatch, GoldMatches
from blindspot.db.records import Passage, Question
from tests.bad_files import BAD
from tests.format_files import PASSAGES, POPQA, QUESTIONS, SAMPLES, Sample, contents, names, study_for
from tests.studies import make_study

BY_NAME = dict(zip(names(SAMPLES), SAMPLES, strict=True))


@pytest.fixture(scope="module")
def templates():
    return {}


@pytest.fixture
def place(tmp_path, templates):
    """A new study for a sample."""
    return lambda sample: study_for(sample, tmp_path / "study", templates)


@pytest.fixture
def study(place):
    return place(BY_NAME["runs-trec"])


def test_every_format_that_is_read_has_a_sample():
    older = {("questions", "entityquestions"), ("questions", "plain"), ("frequencies", "mentions-tsv")}
    folders = {("passages", "beir"), ("qrels", "msmarco")}
    sampled = {(sample.kind, sample.format) for sample in SAMPLES} | older | folders
    assert {(each.kind, each.name) for each in formats()} == sampled


def test_an_installed_package_adds_a_format_and_a_broken_one_is_one_line(tmp_path, monkeypatch, capsys):
    from importlib.metadata import EntryPoint

    module = tmp_path / "own_format_of_a_test.py"
    module.write_text(
        "from blindspot.backend.data.formats.base import Format, ImportedQuestion\n"
        "from blindspot.db.records import Question\n"
        "def read(path, options):\n"
        "    for n, text in enumerate(path.read_text().splitlines()[1:], 2):\n"
        "        yield ImportedQuestion(Question(f'own{n}', text, ('x',), dataset='own', split='dev'), str(path), n)\n"
        "FORMATS = [Format('own', 'questions', 'our own', lambda head: head.text.startswith('OWN'), read)]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    points = [
        EntryPoint("own", "own_format_of_a_test:FORMATS", "blindspot.formats"),
        EntryPoint("gone", "no_such_module_at_all:FORMATS", "blindspot.formats"),
        EntryPoint("number", "math:pi", "blindspot.formats"),
    ]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **given: points)
    more = {"name": REGISTRY._name, "order": REGISTRY._order, "check": REGISTRY._check}
    own = Registry("format", group="blindspot.formats", **more)
    for each in formats():
        own.register(each)
    monkeypatch.setattr("blindspot.backend.data.formats.REGISTRY", own)
    path = tmp_path / "questions.own"
    path.write_text("OWN\nwho was born first?\n")
    assert find_format(path, "questions").name == "own"
    study = make_study(tmp_path / "s", PASSAGES, [])
    assert import_questions(study, path).rows == 1
    said = capsys.readouterr().err
    assert "cannot load the format 'gone' (no_such_module_at_all:FORMATS)" in said
    assert "'number' (math:pi): float is not a Format" in said and said.count("\n") == 2


@pytest.mark.parametrize("sample", SAMPLES, ids=names(SAMPLES))
def test_a_good_file_is_told_by_its_content_and_imported(place, tmp_path, sample):
    path = tmp_path / f"{sample.name}.gz"
    path.write_bytes(gzip.compress(sample.data))
    assert find_format(path, sample.kind).name == sample.format
    assert sample.bring(place(sample), path).rows == sample.rows
    assert sample.bring(place(sample), sample.write(tmp_path), format=sample.format).rows == sample.rows


@pytest.mark.parametrize("sample", SAMPLES, ids=names(SAMPLES))
def test_the_same_file_twice_changes_nothing(place, tmp_path, sample):
    study, path = place(sample), sample.write(tmp_path)
    sample.bring(study, path)
    before = contents(study)
    assert sample.bring(study, path).unchanged
    assert contents(study) == before


# Questions


def questions_of(sample: Sample, folder: Path, data: bytes | None = None, name: str | None = None, **options):
    sample = replace(sample, name=name or sample.name)
    found = find_format(sample.write(folder, data), sample.kind, sample.format).read(
        folder / sample.name, Options(**{**sample.arguments, **options})
    )
    return [item.question if isinstance(item, ImportedQuestion) else item for item in found]


def test_dpr_training_positives_become_gold_by_id_by_text_and_by_overlap(study, tmp_path):
    sample = BY_NAME["questions-dpr-training"]
    rows = json.loads(sample.data)
    elsewhere = "A sentence of another dump stands here. " + PASSAGES[3].text + " And one more that no passage holds."
    unlike = "Of this text no passage has more than a word or two."
    for question, answer, positive in (
        ("q", "Furset", {"title": "x", "text": elsewhere, "psg_id": 99}),
        ("r", "Oslo", {"title": "x", "text": elsewhere}),
        ("s", "y", {"title": "x", "text": unlike}),
        # The id of another collection: its passage 1 is not ours.
        ("t", "Rome", {"title": "Rome", "text": PASSAGES[2].text, "passage_id": "1"}),
    ):
        rows.append({"question": question, "answers": [answer], "positive_ctxs": [positive]})
    result = import_questions(study, sample.write(tmp_path, json.dumps(rows).encode()))
    made = study.questions.all(split="train")
    assert [q.gold for q in made] == [("2",), ("3",), (), ("4",), (), (), ("3",)]
    assert made[0].dataset == "nq" and made[0].answers == ("Askvoll",) and made[0].text == "where was furset born"
    with closing(connect(study.labels_path)) as connection:
        matches = list(read_records(connection, GoldMatch, "gold_match ORDER BY number"))
    found = {q.text: [match for match in matches if match.question == q.id] for q in made}
    assert [(m.passage, m.how) for m in found["where was furset born"]] == [("2", "id")]
    assert found["capital of italy"][0].how == "overlap" and found["capital of italy"][0].score == 1
    assert found["q"][0].how == "overlap" and found["q"][0].score == 1.0
    assert found["r"][0].reason == "the similar passages contain no answer"
    assert found["s"][0].reason == "no passage is similar" and found["s"][0].score < 0.3
    assert found["t"][0].how == "same text"
    assert any("3 questions have no gold" in note for note in result.notes), result.notes


def test_dpr_training_without_passages_says_what_to_do(tmp_path):
    study = Study.create(tmp_path / "s")
    with pytest.raises(BadInput, match="import the passages first"):
        import_questions(study, BY_NAME["questions-dpr-training"].write(tmp_path))


def test_dpr_csv_is_never_run_and_straightens_apostrophes(tmp_path):
    sample = BY_NAME["questions-dpr-csv"]
    assert [(q.text, q.answers, q.split) for q in questions_of(sample, tmp_path)] == [
        ("who sang it", ("Ada", "Bo's"), "dev"),
        ("where's rome", ("Italy",), "dev"),
    ]
    quoted = b'what is "x"\t"[\'say ""hi""\']"\n"who is ""y"""\t[]\n'
    assert [(q.text, q.answers) for q in questions_of(sample, tmp_path, quoted)] == [
        ('what is "x"', ('say "hi"',)),
        ('who is "y"', ()),
    ]
    evil = b"who\t[__import__('os').getcwd()]\nwho\t['a' for a in 'b']\n"
    assert all("must be a list" in str(found) for found in questions_of(sample, tmp_path, evil))


def test_popqa_popularity_is_the_frequency(study, tmp_path):
    path = tmp_path / "popQA.tsv"
    path.write_text(POPQA)
    assert find_format(path, "questions").name == "table"
    import_questions(study, path)
    (made,) = study.questions.with_ids(["4222362"])
    assert (made.text, made.answers) == ("What is George Rankin's occupation?", ("politician", "political leader"))
    assert (made.relation, made.subject, made.frequency) == ("occupation", "George Rankin", 142)
    assert (made.dataset, made.split) == ("popqa", "test")
    path.write_text(POPQA.replace("\t142\t", "\t-1\t"))
    with pytest.raises(BadInput, match="frequency") as error:
        import_questions(study, path)
    assert (error.value.path, error.value.line) == (str(path), 2)


def test_the_settings_of_an_import_are_recorded(tmp_path):
    path = tmp_path / "psgs.tsv"
    path.write_text('id\ttext\ttitle\n1\t"open\tT\n')
    study = Study.create(tmp_path / "s")
    assert import_passages(study, path, settings=["quotes=none"]).rows == 1
    with closing(connect(study.labels_path)) as connection:
        options = connection.execute("SELECT options FROM import_record WHERE kind = 'passages'").fetchone()[0]
    assert json.loads(options)["quotes"] == "none"
    for wrong, says in (("depth=3", "has the settings quotes"), ("quotes", "NAME=VALUE")):
        with pytest.raises(Refused, match=says):
            import_passages(Study.create(tmp_path / wrong), path, settings=[wrong])


def test_a_beir_folder(tmp_path):
    folder = tmp_path / "scifact"
    (folder / "qrels").mkdir(parents=True)
    for name, letter in (("corpus", "d"), ("queries", "q")):
        rows = [json.dumps({"_id": f"{letter}{i}", "text": f"{name} {i}"}) + "\n" for i in range(3)]
        (folder / f"{name}.jsonl").write_text("".join(rows))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq0\td1\t1\nq0\td2\t0\n")
    (folder / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\nq2\td0\t2\nq2\td2\t1\n")
    study = Study.create(tmp_path / "s")
    assert import_passages(study, folder).rows == 3 and import_passages(study, folder).unchanged
    assert import_questions(study, folder).rows == 3 and import_questions(study, folder).unchanged
    assert [(q.id, q.split, q.gold, q.dataset) for q in study.questions.all()] == [
        ("q0", "test", ("d1",), "scifact"),
        ("q1", "unlabelled", (), "scifact"),
        ("q2", "train", ("d0", "d2"), "scifact"),
    ]
    (folder / "qrels" / "dev.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td9\t1\n")
    other = Study.create(tmp_path / "t")
    import_passages(other, folder)
    with pytest.raises(BadInput, match="'d9' is not in the collection") as error:
        import_questions(other, folder)
    assert (error.value.path, error.value.line) == (str(folder / "qrels" / "dev.tsv"), 2)


# Runs and qrels


def test_a_dpr_run_finds_its_questions_by_text_and_counts_flags_that_differ(study, tmp_path):
    result = import_run(study, BY_NAME["runs-dpr"].write(tmp_path), "dpr", split=None)
    run = study.run("dpr")
    assert run.question_ids == ["11", "12", "13"] and run.hits.ordinals.tolist() == [[1, 2, 3]] * 3
    assert run.hits.scores.tolist() == [[9.5, 8.5, 7.5]] * 3
    assert run.answers().tolist() == [[True, False, True], [False, True, False], [False, False, False]]
    # The file flags the first of each: right for 11 (which it has one more of), wrong for 12 and 13.
    assert "4 of 9 flags" in result.notes[0] and "(2 true in the file alone, 2 here alone)" in result.notes[0]
    assert run.manifest["retriever"] == "imported" and run.manifest["imported_from"] == "dpr.json"


def test_questions_of_the_split_that_a_run_does_not_name_count_as_not_found(study, tmp_path):
    path = tmp_path / "one.trec"
    path.write_text("11 Q0 2 1 1 x\n")
    assert "1 question of 'dev' is not in one.trec" in import_run(study, path, "one", split="dev").notes[-1]
    made = report(study, ["one"], relevance="gold", ks=[1]).runs[0]
    assert (made.success[1].value, made.success[1].n) == (0.5, 2)


def test_text_alone_does_not_tell_a_question_that_stands_in_two_splits(tmp_path):
    twins = [QUESTIONS[0], replace(QUESTIONS[0], id="21", split="train")]
    study = make_study(tmp_path / "s", PASSAGES, twins)
    path = tmp_path / "run.json"
    asked = {"question": "where was arve furset born", "answers": ["Askvoll", "Norway"]}
    path.write_text(json.dumps([asked | {"ctxs": [{"id": "2", "score": 1}]}]))
    with pytest.raises(BadInput, match=r"several sets \(11, 21\); use --split"):
        import_run(study, path, "run")
    assert import_run(study, path, "run", split="train").rows == 1 and study.run("run").question_ids == ["21"]


@pytest.mark.parametrize(
    ("ties", "order"), [("file", ["4", "9", "10", "2"]), ("row", ["4", "2", "10", "9"]), ("id", ["4", "10", "2", "9"])]
)
def test_equal_scores_are_ordered_as_asked_in_and_out(tmp_path, ties, order):
    passages = [Passage(id, "", f"text {id}") for id in ("2", "10", "9", "4")]
    study = make_study(tmp_path / "s", passages, QUESTIONS[:1])
    path = tmp_path / "run.trec"
    path.write_text("".join(f"11 Q0 {id} 1 {score} x\n" for id, score in (("9", 1), ("10", 1), ("2", 1), ("4", 2))))
    import_run(study, path, "file")
    import_run(study, path, ties, ties=ties, replace=ties == "file")
    ids = [passage.id for passage in study.corpus.passages(study.run(ties).hits.ordinals[0].tolist())]
    assert ids == order and study.run(ties).hits.scores[0].tolist() == [2, 1, 1, 1]
    assert ties in study.run(ties).manifest["tie_order"]
    assert import_run(study, path, ties, ties=ties).unchanged
    for format in ("trec", "msmarco"):
        export_run(study, "file", format, tmp_path / "out", ties=ties)
        lines = [line.split() for line in (tmp_path / "out").read_text().splitlines()]
        assert [line[2 if format == "trec" else 1] for line in lines] == order
    with pytest.raises(Refused, match="--ties must be one of id, row, file"):
        export_run(study, "file", "trec", tmp_path / "out", ties="score")
    with pytest.raises(BadInput, match="ties"):
        import_run(study, path, "other", ties="score")


def test_a_run_that_is_not_grouped_by_question_takes_about_as_long_as_one_that_is(tmp_path):
    count, depth = 1000, 60
    passages = [Passage(str(i), "", f"text {i}") for i in range(depth)]
    questions = [Question(f"q{i}", f"question {i}", ("x",), dataset="d", split="dev") for i in range(count)]
    study = make_study(tmp_path / "s", passages, questions)
    lines = [f"q{q} Q0 {rank} {rank + 1} {depth - rank} x\n" for q in range(count) for rank in range(depth)]
    by_rank = [lines[q * depth + rank] for rank in range(depth) for q in range(count)]
    for name, some in (("grouped", lines), ("ranks", by_rank)):
        (tmp_path / name).write_text("".join(some))
        assert import_run(study, tmp_path / name, name, format="trec").rows == count

    def seconds(name: str, number: int) -> float:
        began = time.process_time()
        import_run(study, tmp_path / name, f"{name}-{number}", format="trec")
        return time.process_time() - began

    least = {name: min(seconds(name, number) for number in range(3)) for name in ("grouped", "ranks")}
    assert least["ranks"] < 2.5 * least["grouped"]
    assert study.run("ranks").question_ids == study.run("grouped").question_ids
    assert (study.run("ranks").hits.ordinals == study.run("grouped").hits.ordinals).all()
    # Many blocks, as in a file of millions of lines, give the same.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contexts, "LINES_PER_BLOCK", 777)
        import_run(study, tmp_path / "ranks", "blocks", format="trec")
    assert (study.run("blocks").hits.ordinals == study.run("grouped").hits.ordinals).all()


def test_the_first_problem_of_a_run_is_the_files_first(study, tmp_path):
    path = tmp_path / "run.trec"
    path.write_text("11 Q0 4 1 1 x\n12 Q0 3 1 1 x\n11 Q0 wiki:2 2 1.0 x\n11 Q0 1 3 3 x\n")
    import_run(study, path, "whole")
    assert study.run("whole").hits.ordinals.tolist() == [[0, 3, 1], [2, -1, -1]], "equal scores in the file's order"
    path.write_text("11 Q0 2 1 3 x\n12 Q0 nowhere 1 3 x\n11 Q0 4 2 2 x\nbroken\n")
    with pytest.raises(BadInput, match="run.trec:2: the passage 'nowhere'"):
        import_run(study, path, "r", format="trec")


def test_qrels_add_gold_and_keep_grades(study, tmp_path):
    result = import_qrels(study, BY_NAME["qrels-trec"].write(tmp_path))
    assert study.questions.get("11").gold == ("2", "4") and study.questions.get("12").gold == ("3",)
    assert [note.split(" has ")[0].split(" with ")[0] for note in result.notes] == ["1 question", "1 line"]
    assert GoldMatches(study.labels_path).grades() == {("11", "2"): 1, ("11", "4"): 2, ("12", "1"): 0}


@pytest.mark.parametrize("name, data, line, message", [(name, *case) for name, cases in BAD.items() for case in cases])
def test_a_bad_file_is_one_line_with_its_place_and_changes_nothing(place, tmp_path, name, data, line, message):
    sample = BY_NAME[name]
    study = place(sample)
    before, path = contents(study), sample.write(tmp_path, data)
    with pytest.raises(BadInput, match=message) as error:
        sample.bring(study, path, format=sample.format)
    if line is not None:
        assert error.value.line == line
    assert str(path) in str(error.value) and "\n" not in str(error.value)
    assert contents(study) == before


def test_skip_bad_keeps_what_is_good(place, tmp_path):
    for name, data, rows, left in (
        ("runs-trec", b"11 Q0 2 1 1 t\n11 Q0 8 1 1 t\nx\n99 Q0 2 1 1 t\n", 1, 3),
        ("qrels-trec", b"11 0 4 1\n99 0 2 1\n", 1, 1),
        ("questions-dpr-csv", b"a\t['b']\nb\n", 1, 1),
        ("passages-msmarco", b"0\ta\n0\tb\n1\n2\tc\n", 2, 2),
    ):
        sample = BY_NAME[name]
        result = sample.bring(place(sample), sample.write(tmp_path, data), format=sample.format, skip_bad=True)
        assert (result.rows, result.left_out) == (rows, left), name
        assert len(result.left_out_file.read_text().splitlines()) == left


def test_what_a_file_is_not_is_said(study, tmp_path):
    for name, kind, says in (
        ("runs-dpr", "questions", "looks like runs.*blindspot import run"),
        ("qrels-trec", "runs", "looks like qrels"),
        ("questions-dpr-training", "runs", "looks like questions"),
        ("runs-trec", "qrels", "blindspot import run"),
    ):
        with pytest.raises(BadInput, match=says):
            find_format(BY_NAME[name].write(tmp_path), kind)


# The JSON reader


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_json_in_pieces_is_json(size):
    value = [{"a": [1, -2.5e3, True, None, 'é\n"\\ 😀 \ud83d'], "b": {}}, 12345, [], "x" * 50, {"c": -0.0}]
    text = " \n" + json.dumps(value, indent=2) + "\n "
    stream = JsonStream((text[i : i + size] for i in range(0, len(text), size)), "f")
    found = list(stream.array())
    stream.end()
    assert [each for _, each in found] == value
    assert [line for line, _ in found] == [
        text[: text.index(start)].count("\n") + 1 for start in ('{\n    "a"', "12345", "[]", '"xxx', '{\n    "c"')
    ]


def test_a_mistake_in_the_middle_is_found_where_it_is():
    text = "[1, 2,\n {" + '"a": 3},\n {"b": nope}, ' + "4," * 100_000
    with pytest.raises(BadInput, match="Expecting value") as error:
        list(JsonStream([text], "f").array())
    assert error.value.line == 3


def test_entries_say_what_they_hold(tmp_path):
    sample = BY_NAME["runs-pyserini"]
    first = {"docid": 5, "score": 1.5, "text": '"A ""b"""\nthe text'}
    others = [{"docid": "6", "score": "2", "text": "no title"}, {"docid": "7", "score": 3}]
    contents = {"7": {"question": "q", "contexts": [first, *others]}}
    (entry,) = find_format(sample.write(tmp_path, json.dumps(contents).encode()), "runs").read(tmp_path / sample.name)
    assert isinstance(entry, RunEntry) and (entry.question_id, entry.question, entry.answers) == ("7", "q", ())
    assert [(c.id, c.score, c.title, c.text, c.has_answer) for c in entry.contexts] == [
        ("5", 1.5, 'A "b"', "the text", None),
        ("6", 2.0, "", "no title", None),
        ("7", 3.0, None, None, None),
    ]


def test_a_first_line_longer_than_what_is_looked_at(tmp_path):
    (tmp_path / "a").write_text(json.dumps({"id": "1", "title": "T", "text": "word " * 20_000}) + "\n")
    assert find_format(tmp_path / "a", "passages").name == "passage-jsonl"
