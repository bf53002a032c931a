"""Exporting and importing labels: byte for byte the same, safe in a spreadsheet, with faults reported by line."""

from __future__ import annotations

import csv
import json
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from blindspot.app.commands.labels import labels_app
from blindspot.backend.core.spreadsheets import plain_cell, safe_cell
from blindspot.backend.core.study import Study
from blindspot.backend.judging.labels_io import export_labels, import_labels
from blindspot.db.errors import BadInput, BlindspotError, Missing, Refused
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.queue import Candidate, Item, Queue
from tests.judging import Clock
from tests.studies import births, make_study, people

NOTES = (
    '=HYPERLINK("http://x")',
    "+1",
    "-1",
    "@x",
    "\ttab",
    '\r\nline, "quoted"\n',
    "'=1",
    "''",
    "\uff1dwide",
    "plain, with comma",
    "\u2028 \x85",
    "é💥",
)


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """A study of 20 passages and their questions, without labels."""
    passages = people(20)
    study = make_study(
        tmp_path_factory.mktemp("empty") / "study", passages, births(passages, "dev") + births(passages, "train")
    )
    for store in (study.questions, study.corpus):
        store.close()
    return study.folder


@pytest.fixture
def copy(empty, tmp_path):
    """Return a separate study of this kind."""

    def make(name):
        shutil.copytree(empty, tmp_path / name)
        return Study.open(tmp_path / name)

    return make


@pytest.fixture
def judged(copy):
    """Two people and an adjudicator: labels, an undo, notes of every nasty sort, a bad question, an audit, practice."""
    study = copy("judged")
    for name, role in (("ann", "annotator"), ("=ben", "annotator"), ("ada", "adjudicator")):
        People(study.labels_path).add(name, role)
    Queue(study.labels_path).add_batch("practice", [Item("P19.dev.2", (Candidate("p1"),))], {}, practice=True)
    Queue(study.labels_path).add_batch(
        "audit",
        [
            Item(
                "P19.dev.3",
                (Candidate("p5", 0, "bm25", 7, 1 / 3, None, None, 0.025),),
                "audit",
                inclusion_probability=0.1,
            )
        ],
        {},
    )
    labels = Labels(study.labels_path, passages=study.corpus.ordinals, clock=Clock(1_700_000_000.123))
    for who, gesture in [
        ("ann", LabelEvent("a1", "label", "P19.dev.0", (Choice("p1", "positive", "=run", 1, 0.1 + 0.2, 1e-7), Choice("p2", "negative")))),
        ("ann", LabelEvent("a2", "label", "P19.dev.1", (Choice("p1", "related"),), blind=False, milliseconds=812, client_time=17e8 + 0.5)),
        ("=ben", LabelEvent("b1", "label", "P19.dev.0", (Choice("p2", "positive"), Choice("p3", "unsure")), guideline_version="1,2")),
        ("ann", LabelEvent("a3", "undo", "P19.dev.1", undoes="a2")),
        ("ada", LabelEvent("c1", "adjudicate", "P19.dev.0", (Choice("p2", "related"),), note="-see the title")),
        ("ann", LabelEvent("a4", "label", "P19.dev.3", (Choice("p5", "negative"),), batch="audit")),
        ("ann", LabelEvent("a5", "label", "P19.dev.2", (Choice("p1", "positive"),), batch="practice")),
        ("=ben", LabelEvent("b2", "bad_question", "P19.dev.4", note="two of that name")),
        *(("ann", LabelEvent(f"n{i}", "note", "P19.dev.5", (Choice("p4"),) if i % 2 else (), note=note)) for i, note in enumerate(NOTES)),
    ]:  # fmt: skip
        labels.add(who, gesture)
    return study


@pytest.mark.parametrize("format", ["jsonl", "csv"])
def test_a_round_trip_is_the_same_to_the_byte(judged, copy, tmp_path, format):
    first = export_labels(judged, format, tmp_path / f"first.{format}")
    other = copy("other")
    done = import_labels(other, first.path)
    assert (done.stored, done.known, done.left_out) == (first.rows, 0, 0) and first.rows == 10 + len(NOTES)
    second = export_labels(other, format, tmp_path / f"second.{format}")
    assert second.path.read_bytes() == first.path.read_bytes() and second.last_event == first.last_event
    for view in (Labels.judgements, Labels.consensus, Labels.corrected_relevance, Labels.bad_questions):
        assert view(Labels(other.labels_path)) == view(Labels(judged.labels_path))
    assert [person.role for person in People(other.labels_path).all()] == ["annotator", "adjudicator", "annotator"]
    again = import_labels(other, first.path)
    assert (again.stored, again.known) == (0, first.rows)


def test_jsonl_and_csv_hold_the_same(judged, copy, tmp_path):
    table, lines = (export_labels(judged, format, tmp_path / f"x.{format}").path for format in ("csv", "jsonl"))
    other = copy("other")
    import_labels(other, table)
    assert export_labels(other, "jsonl", tmp_path / "y.jsonl").path.read_bytes() == lines.read_bytes()


def test_no_cell_of_the_csv_is_a_formula(judged, tmp_path):
    path = export_labels(judged, "csv", tmp_path / "x.csv").path
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    cells = [cell for row in rows for cell in row.values()]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "@", "\t", "\r", "\n", "\uff1d"))]
    assert not [cell for cell in cells if cell.startswith("-") and not cell.lstrip("-").replace(".", "").isdigit()]
    assert {row["note"] for row in rows} >= {'\'=HYPERLINK("http://x")', "'-see the title", "''=1", "two of that name"}
    assert {row["annotator"] for row in rows} == {"ann", "ada", "'=ben"} and {row["split"] for row in rows} == {"dev"}


@given(st.text())
def test_a_safe_cell_comes_back_and_begins_no_formula(text):
    assert plain_cell(safe_cell(text)) == text
    assert not safe_cell(text).startswith(
        ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
    )


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    notes=st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40),
        min_size=1,
        max_size=6,
    ),
    scores=st.lists(
        st.floats(allow_nan=False, allow_infinity=False, min_value=-1e299, max_value=1e299), min_size=1, max_size=6
    ),
)
def test_any_text_and_number_comes_back(copy, tmp_path_factory, notes, scores):
    folder = tmp_path_factory.mktemp("any")
    one, two, three = (copy(folder.name + name) for name in ("one", "two", "three"))
    People(one.labels_path).add("ann")
    labels = Labels(one.labels_path, passages=one.corpus.ordinals)
    labels.add_all("ann", [LabelEvent(f"n{i}", "note", "P19.dev.0", note=note) for i, note in enumerate(notes)])
    labels.add_all(
        "ann",
        [
            LabelEvent(f"s{i}", "label", "P19.dev.0", (Choice("p1", "negative", score=score),), client_time=score)
            for i, score in enumerate(scores)
        ],
    )
    for format, other in (("jsonl", two), ("csv", three)):
        written = export_labels(one, format, folder / f"one.{format}").path
        assert import_labels(other, written).stored == len(notes) + len(scores)
        assert export_labels(other, format, folder / f"two.{format}").path.read_bytes() == written.read_bytes()
    for study in (one, two, three):
        shutil.rmtree(study.folder)


@pytest.mark.parametrize("format", ["jsonl", "csv", "qrels"])
def test_until_makes_an_earlier_export_again(judged, tmp_path, format):
    early = export_labels(judged, format, tmp_path / "early")
    about = json.loads((tmp_path / "early.about.json").read_text())
    assert about["last_event"] == early.last_event and about["rows"] == early.rows and about["format"] == format
    labels = Labels(judged.labels_path, passages=judged.corpus.ordinals)
    labels.add("=ben", LabelEvent("z1", "undo", "P19.dev.0", undoes="b1"))
    labels.add("ann", LabelEvent("z2", "label", "P19.dev.0", (Choice("p1", "negative"), Choice("p7", "positive"))))
    labels.add("ada", LabelEvent("z3", "adjudicate", "P19.dev.0", (Choice("p2", "positive"),)))
    late, again = (
        export_labels(judged, format, tmp_path / "late"),
        export_labels(judged, format, tmp_path / "again", about["last_event"]),
    )
    assert again.path.read_bytes() == early.path.read_bytes() != late.path.read_bytes()
    assert (tmp_path / "again.about.json").read_bytes() == (tmp_path / "early.about.json").read_bytes()
    for number in (0, late.last_event + 1):
        with pytest.raises(Refused, match=f"there is no event {number}"):
            export_labels(judged, format, tmp_path / "other", number)


def test_qrels_hold_what_is_settled(judged, copy, tmp_path):
    written = export_labels(judged, "qrels", tmp_path / "x.qrels")
    assert written.path.read_text().split("\n") == [
        "P19.dev.0 0 p1 1",
        "P19.dev.0 0 p2 0",
        "P19.dev.3 0 p5 0",
        "",
    ]  # p3 is unsure; practice and undone labels do not count
    assert any("1 pair in dispute or unsure has no line" in note for note in written.notes) and any(
        "1 related" in note for note in written.notes
    )
    other = copy("other")
    done = import_labels(other, written.path, annotator="old qrels", by_person=True)
    assert done.stored == 3 and {
        (j.question, j.passage, j.label, j.annotator) for j in Labels(other.labels_path).judgements()
    } == {
        ("P19.dev.0", "p1", "positive", "old qrels"),
        ("P19.dev.0", "p2", "negative", "old qrels"),
        ("P19.dev.3", "p5", "negative", "old qrels"),
    }
    assert export_labels(other, "qrels", tmp_path / "y.qrels").path.read_bytes() == written.path.read_bytes()
    assert import_labels(other, written.path, annotator="old qrels", by_person=True).known == 3
    with pytest.raises(Refused, match="--annotator"):
        import_labels(other, written.path)


def test_qrels_are_what_ir_measures_reads(judged, tmp_path):
    import ir_measures

    path = export_labels(judged, "qrels", tmp_path / "x.qrels").path
    assert [(q.query_id, q.doc_id, q.relevance) for q in ir_measures.read_trec_qrels(str(path))] == [
        ("P19.dev.0", "p1", 1),
        ("P19.dev.0", "p2", 0),
        ("P19.dev.3", "p5", 0),
    ]


def test_into_a_store_that_has_labels_events_go_to_the_end(judged, copy, tmp_path):
    written = export_labels(judged, "jsonl", tmp_path / "x.jsonl")
    other = copy("other")
    People(other.labels_path).add("ann", "lead")
    labels = Labels(other.labels_path, passages=other.corpus.ordinals)
    labels.add("ann", LabelEvent("mine", "label", "P19.dev.0", (Choice("p9", "positive"),)))
    assert import_labels(other, written.path).stored == written.rows
    numbers = [event.number for event in labels.events()]
    assert (
        numbers == sorted(numbers)
        and next(labels.events()).gesture == "mine"
        and People(other.labels_path).get("ann").role == "lead"
    )
    undo, undone = (next(event for event in labels.events() if event.gesture == gesture) for gesture in ("a3", "a2"))
    assert undo.undoes == undone.number
    expected = {
        (pair.question, pair.passage): (pair.label, pair.state) for pair in Labels(judged.labels_path).consensus()
    }
    found = {(pair.question, pair.passage): (pair.label, pair.state) for pair in labels.consensus()}
    assert found == expected | {("P19.dev.0", "p9"): ("positive", "agreed")}


def lines_of(path):
    return [json.loads(line) for line in path.read_text().split("\n") if line]


def write_lines(path, rows):
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    "change, says",
    [
        ({"question": "P19.dev.99"}, "question 'P19.dev.99' is not in the study"),
        ({"passage": "p99"}, "passage 'p99' is not in the study"),
        ({"label": "maybe"}, "the label is 'maybe'"),
        ({"number": 1}, "event 1 comes after event 4"),
        ({"annotator": " ann"}, "annotator's name"),
        ({"score": "high"}, "score must be a number"),
        ({"score": float("inf")}, "score must be a number"),
        ({"inclusion_probability": 0}, "inclusion_probability"),
        ({"gesture": "u", "kind": "undo", "label": None, "undoes": 77}, "undoes event 77"),
        ({"gesture": "a2"}, "differ in kind, annotator or question"),
        ({"server_time": None}, "there is no server_time"),
        ({"note": ""}, "note must be text"),
    ],
)
def test_what_does_not_fit_is_said_by_line_or_left_out(judged, copy, tmp_path, change, says):
    rows = lines_of(export_labels(judged, "jsonl", tmp_path / "x.jsonl").path)
    at = 4  # the second choice of b1
    rows[at] = {**rows[at], **change}
    path, other = write_lines(tmp_path / "bad.jsonl", rows), copy("other")
    with pytest.raises(BadInput) as error:
        import_labels(other, path)
    assert error.value.line == at + 1 and says in error.value.message and Labels(other.labels_path).last_event == 0
    done = import_labels(other, path, skip_bad=True)
    assert (done.stored, done.left_out) == (len(rows) - 1, 1)
    place, reason = done.file.read_text().strip().split("\t")
    assert place == f"{path}:{at + 1}" and says in reason


@pytest.mark.parametrize(
    "text, says",
    [
        ("{}\n", "there is no number"),
        ("[1]\n", "not a JSON object"),
        ("{\n", "not JSON"),
        ("", "holds no labels"),
        ("\n\n", "holds no labels"),
        ("[" * 100_000 + "\n", "not JSON"),
        ('{"number": NaN}\n', "there is no gesture"),
    ],
)
def test_a_file_that_is_no_export(copy, tmp_path, text, says):
    (tmp_path / "bad.jsonl").write_text(text)
    with pytest.raises(BadInput, match=says):
        import_labels(copy("study"), tmp_path / "bad.jsonl")


def test_lines_of_a_csv_are_those_of_the_file_though_notes_span_some(judged, copy, tmp_path):
    path = export_labels(judged, "csv", tmp_path / "x.csv").path
    text = path.read_bytes().decode()
    assert text.count('"n11"') == 1
    before, after = text.split('"n11"')
    (tmp_path / "bad.csv").write_bytes(f'{before}"n11"{after.replace("P19.dev.5", "P19.dev.99")}'.encode())
    with pytest.raises(BadInput) as error:
        import_labels(copy("other"), tmp_path / "bad.csv")
    line = text[: text.index('"n11"')].count("\n") + 1
    assert error.value.line == line and "'P19.dev.99'" in error.value.message
    header, rest = text.split("\n", 1)
    for wrong, says in (
        (header.replace("gesture", "gestures") + "\n" + rest, "column gesture"),
        (header + "\n1,2,3\n", "3 cells"),
        (header + '\n"unclosed', "not CSV"),
        ("", "column"),
    ):
        (tmp_path / "bad.csv").write_text(wrong)
        with pytest.raises(BadInput, match=says):
            import_labels(copy(f"other{len(wrong)}"), tmp_path / "bad.csv")


def test_the_same_event_with_another_content_is_refused(judged, tmp_path):
    rows = lines_of(export_labels(judged, "jsonl", tmp_path / "x.jsonl").path)
    rows[0]["label"] = "negative"
    with pytest.raises(BadInput, match=":1: gesture 'a1' is already in the study with different content"):
        import_labels(judged, write_lines(tmp_path / "y.jsonl", rows))


def test_what_is_left_out_takes_its_undo_with_it(judged, copy, tmp_path):
    rows = lines_of(export_labels(judged, "jsonl", tmp_path / "x.jsonl").path)
    (undone,) = [row for row in rows if row["gesture"] == "a2"]
    undone["passage"] = "p99"
    done = import_labels(copy("other"), write_lines(tmp_path / "y.jsonl", rows), skip_bad=True)
    assert done.left_out == 2 and "which is not in the file before it, or was left out" in done.file.read_text()


def test_nothing_to_write_and_unknown_formats(copy, judged, tmp_path):
    with pytest.raises(Missing, match="no labels"):
        export_labels(copy("study"), "csv", tmp_path / "x.csv")
    for call in (lambda: export_labels(judged, "xml"), lambda: import_labels(judged, tmp_path / "x.xml")):
        with pytest.raises(Refused, match="jsonl, csv, qrels"):
            call()


@pytest.fixture
def command():
    def run(study, *arguments, code=0):
        result = CliRunner().invoke(labels_app, [*map(str, arguments), "--study", str(study.folder)])
        assert result.exit_code == code, result.output
        if code:
            assert isinstance(result.exception, BlindspotError), result.exception
            return result.output + str(result.exception)
        return result.output

    return run


def test_export_and_import_from_the_command_line(command, judged, copy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    last = Labels(judged.labels_path).last_event
    assert (
        f"Wrote labels-{last}.csv: {10 + len(NOTES)} rows, up to event {last} (--until {last} reproduces this file)"
        in command(judged, "export", "--format", "csv")
    )
    other = copy("other")
    assert f"Imported {10 + len(NOTES)} label events" in command(other, "import", f"labels-{last}.csv")
    assert "0 label events" in command(other, "import", f"labels-{last}.csv")
    assert "1 related passage has grade 0" in command(judged, "export", "--format", "qrels", "--out", "x.qrels")
    assert "there is no event 999" in command(judged, "export", "--format", "csv", "--until", 999, code=1)
    assert "--annotator" in command(other, "import", "x.qrels", code=1)
    assert "3 label events" in command(other, "import", "x.qrels", "--annotator", "qrels", "--by-person")


def test_backup_restore_and_check(command, judged, tmp_path):
    assert "sound. 22 label events of 3 people" in command(judged, "check")
    kept = tmp_path / "kept.db"
    assert f"Wrote {kept}: 22 label events" in command(judged, "backup", "--out", kept)
    assert "exists already" in command(judged, "backup", "--out", kept, code=1)
    assert "backups/labels-" in command(judged, "backup")
    labels = Labels(judged.labels_path, passages=judged.corpus.ordinals)
    labels.add("ann", LabelEvent("new", "label", "P19.dev.0", (Choice("p8", "positive"),)))
    assert "1 label events are in the study and not in" in command(judged, "restore", kept, code=1)
    assert Labels(judged.labels_path).last_event == 23
    told = command(judged, "restore", kept, "--drop-newer")
    assert "22 label events" in told and "The former file is" in told
    assert (
        Labels(judged.labels_path).last_event == 22
        and labels.add("ann", LabelEvent("new", "note", "P19.dev.0", note="on")).is_in_store
    )


def test_a_damaged_file_is_found_and_can_be_restored(command, judged, tmp_path):
    kept = tmp_path / "kept.db"
    command(judged, "backup", "--out", kept)
    Labels(judged.labels_path).connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    pages = bytearray(judged.labels_path.read_bytes())
    pages[4096:12288] = b"\x5a" * 8192
    for name in judged.folder.glob("labels.db-*"):
        name.unlink()
    judged.labels_path.write_bytes(pages)
    assert "is damaged; restore a backup" in command(judged, "check", code=1)
    assert "Restored" in command(judged, "restore", kept)
    assert "sound. 22 label events" in command(judged, "check") and list((judged.folder / "backups").glob("*damaged*"))
    (tmp_path / "no.db").write_text("nothing of the kind" * 100)
    assert "cannot be restored" in command(judged, "restore", tmp_path / "no.db", code=1)


def test_a_guard_that_is_gone_is_found(command, judged):
    connection = Labels(judged.labels_path).connection
    connection.execute("DROP TRIGGER label_event_no_update")
    assert "the trigger label_event_no_update is missing" in command(judged, "check", code=1)
