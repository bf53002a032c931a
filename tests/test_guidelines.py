"""Guidelines are a file of the study's folder, or the default text; a label records which text was in force."""

from __future__ import annotations

from blindspot.backend.judging.guidelines import guidelines
from tests.app_pages import hand_made_study


def test_a_file_of_the_study_takes_the_place_of_the_default(tmp_path):
    study = hand_made_study(tmp_path / "study")
    default = guidelines(study.folder)
    assert "Does the passage answer the question?" in default.text
    (study.folder / "guidelines.md").write_text("# Ours\n\n<b>Look</b> *twice*.\n", encoding="utf-8")
    ours = guidelines(study.folder)
    assert ours.text.startswith("# Ours") and ours.version != default.version
    assert ours.as_elements() == [["h2", {}, "Ours"], ["p", {}, "<b>Look</b> ", ["em", {}, "twice"], "."]]
    (study.folder / "guidelines.md").unlink()
    assert guidelines(study.folder) == default
