"""Machines as annotators: shown apart, never in consensus or agreement, and so also in studies of older versions."""

import pytest
from sqlite_utils import Database

from blindspot.backend.judging.labels_io import export_labels, import_labels
from blindspot.backend.judging.quality import quality
from blindspot.db import migrations
from blindspot.db.connection import connect
from blindspot.db.errors import Refused
from blindspot.db.events import MACHINE, Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People
from tests.studies import births, make_study, people
from tests.training_studies import say

QRELS = "P19.dev.0 0 p0 1\nP19.dev.0 0 p1 0\nP19.dev.1 0 p1 1\n"


@pytest.fixture
def study(tmp_path):
    passages = people()
    study = make_study(tmp_path / "s", passages, births(passages))
    People(study.labels_path).add("ann", "lead")
    say(study, "ann", "P19.dev.0", {"p0": "negative", "p1": "negative"})
    (tmp_path / "q.qrels").write_text(QRELS)
    return study


def consensus(study):
    return {(pair.question, pair.passage): (pair.label, pair.people) for pair in Labels(study.labels_path).consensus()}


def test_imported_qrels_are_a_machines_and_count_for_nothing_that_people_agree_on(study, tmp_path):
    before, agreed = consensus(study), quality(study)
    assert import_labels(study, tmp_path / "q.qrels", annotator="other tool").stored == 3
    assert consensus(study) == before == {("P19.dev.0", "p0"): ("negative", 1), ("P19.dev.0", "p1"): ("negative", 1)}
    after = quality(study)
    assert [each.name for each in after.work] == ["ann"] and not after.disputes
    assert (after.together and after.together.people) == (agreed.together and agreed.together.people)
    labels = Labels(study.labels_path)
    assert labels.machine_label_counts() == {"other tool": 3}
    assert labels.machine_labels("other tool") == {
        ("P19.dev.0", "p0"): "positive", ("P19.dev.0", "p1"): "negative", ("P19.dev.1", "p1"): "positive"
    }  # fmt: skip
    assert not any(event.blind for event in labels.events() if event.annotator == "other tool")


def test_qrels_that_a_person_gave_count_as_a_persons(study, tmp_path):
    import_labels(study, tmp_path / "q.qrels", annotator="assessor", by_person=True)
    assert consensus(study)["P19.dev.0", "p0"] == (None, 2) and consensus(study)["P19.dev.1", "p1"] == ("positive", 1)
    with pytest.raises(Refused, match="assessor is a person; name another annotator"):
        import_labels(study, tmp_path / "q.qrels", annotator="assessor")
    import_labels(study, tmp_path / "q.qrels", annotator="tool")
    with pytest.raises(
        Refused, match="tool is a machine; name another annotator, or run: blindspot people kind tool person"
    ):
        import_labels(study, tmp_path / "q.qrels", annotator="tool", by_person=True)


def test_nobody_judges_or_signs_in_as_a_machine(study, tmp_path):
    import_labels(study, tmp_path / "q.qrels", annotator="tool")
    gesture = LabelEvent("x1", "label", "P19.dev.0", (Choice("p3", "positive"),))
    with pytest.raises(Refused, match="tool is a machine; its labels are imported"):
        Labels(study.labels_path, passages=study.corpus.ordinals).add("tool", gesture)
    with pytest.raises(Refused, match="tool is a machine and gets no link"):
        People(study.labels_path).invite("tool")


def test_the_kind_can_be_changed_by_whoever_keeps_the_files(study, tmp_path):
    import_labels(study, tmp_path / "q.qrels", annotator="tool")
    everybody = People(study.labels_path)
    everybody.set_kind("tool", "person")
    assert consensus(study)["P19.dev.0", "p0"] == (None, 2)
    everybody.set_kind("tool", "machine")
    assert consensus(study)["P19.dev.0", "p0"] == ("negative", 1)
    with pytest.raises(Refused, match="ann can sign in or settles disputes, and is a person"):
        everybody.set_kind("ann", "machine")


def test_an_export_keeps_who_is_a_machine(study, tmp_path):
    import_labels(study, tmp_path / "q.qrels", annotator="tool")
    written = export_labels(study, "jsonl", tmp_path / "all.jsonl")
    passages = people()
    other = make_study(tmp_path / "other", passages, births(passages))
    import_labels(other, written.path)
    assert {each.name: each.kind for each in People(other.labels_path).all()} == {"ann": "person", "tool": "machine"}
    assert consensus(other) == consensus(study)


def test_a_study_of_an_older_version_opens_with_its_qrels_as_a_machines(study, tmp_path):
    """The schema before kinds: an annotator of qrels alone becomes a machine, one with labels of their own stays a person."""
    old = tmp_path / "labels.db"
    before = type(migrations.MIGRATIONS)("blindspot")
    before._migrations = [each for each in migrations.MIGRATIONS._migrations if each.name < "m013"]
    connection = connect(old)
    before.apply(Database(connection, execute_plugins=False))
    connection.execute("INSERT INTO question (id, position, text, split) VALUES ('q', 0, 'Who?', 'dev')")
    for name in ("tool", "ann", "both", "idle"):
        connection.execute("INSERT INTO annotator (name, role, made) VALUES (?, 'annotator', 1.0)", (name,))
    rows = [("tool", MACHINE), ("ann", "abc"), ("both", MACHINE), ("both", "abc")]
    for number, (name, version) in enumerate(rows):
        connection.execute(
            "INSERT INTO label_event (gesture, part, kind, question, passage, annotator, label, blind, guideline_version, server_time) "
            "VALUES (?, 0, 'label', 'q', ?, ?, 'positive', 0, ?, 1.0)",
            (f"g{number}", f"p{number}", name, version),
        )
    connection.close()
    migrations.migrate(old)
    assert {each.name: each.kind for each in People(old).all()} == {
        "tool": "machine", "ann": "person", "both": "person", "idle": "person"
    }  # fmt: skip
    assert {pair.passage for pair in Labels(old).consensus()} == {"p1", "p2", "p3"}
    assert {pair.passage for pair in Labels(old).consensus_as_of(4)} == {"p1", "p2", "p3"}
