"""Machines as annotators: shown apart, never in consensus or agreement."""

import pytest

from blindspot.backend.judging.labels_io import export_labels, import_labels
from blindspot.backend.judging.quality import quality
from blindspot.db.errors import Refused
from blindspot.db.events import Choice, LabelEvent
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
