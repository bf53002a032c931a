"""The planted faults can still be planted: `make faults` runs them."""

from tests.planted_faults import FAULTS, planted, problems


def test_every_patch_applies_once_and_its_tests_are_there():
    assert problems() == []


def test_no_sentence_was_dropped():
    assert len({each.sentence for each in FAULTS}) == len(FAULTS) == 56


def test_a_fault_is_put_in_and_taken_out(tmp_path):
    edits = FAULTS[0].edits
    path = tmp_path / edits[0].file
    path.parent.mkdir(parents=True)
    path.write_text(f"before\n{edits[0].old}after\n")
    at = path.stat().st_mtime_ns
    with planted(tmp_path, edits):
        assert path.read_text() == f"before\n{edits[0].new}after\n" and path.stat().st_mtime_ns != at
    assert path.read_text() == f"before\n{edits[0].old}after\n"
