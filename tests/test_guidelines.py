"""Guidelines are edited by a lead in the app or by a command; every version is kept, with who changed it."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from blindspot.app.cli import app
from blindspot.backend.judging.guidelines import MAX_TEXT, edit_guidelines, guideline_versions, guidelines
from blindspot.db.errors import BadInput, Forbidden
from blindspot.db.people import People
from tests.app_pages import Page, hand_made_study


@pytest.fixture
def study(tmp_path):
    study = hand_made_study(tmp_path / "study")
    for name, role in (("Ann", "annotator"), ("Dot", "adjudicator"), ("Lea", "lead")):
        People(study.labels_path).add(name, role)
    return study


def test_versions_are_kept_with_who_changed_them(study):
    default = guidelines(study.folder)
    first = edit_guidelines(study, "# Judge\r\n\nas *you* like\n\n", actor="Lea")
    assert (study.folder / "guidelines.md").read_text() == first.text == "# Judge\n\nas *you* like\n"
    assert guidelines(study.folder) == first != default
    second = edit_guidelines(study, "otherwise")
    kept = guideline_versions(study)
    assert [each.version for each in kept] == [second.version, first.version, default.version]
    assert [each.by for each in kept] == [None, "Lea", None] and kept[1].text == first.text
    again = edit_guidelines(study, first.text, actor="Lea")
    assert again == first and [each.version for each in guideline_versions(study)][:2] == [
        first.version,
        second.version,
    ]
    assert edit_guidelines(study, first.text) == first and guideline_versions(study)[0].by == "Lea", "nothing changed"


def test_a_text_that_was_put_into_the_folder_is_a_version_too(study):
    edit_guidelines(study, "by button", actor="Lea")
    (study.folder / "guidelines.md").write_text("by hand", encoding="utf-8")
    by_hand, by_button = guideline_versions(study)[:2]
    assert (by_hand.text, by_hand.by) == ("by hand", None) and (by_button.text, by_button.by) == ("by button\n", "Lea")


@pytest.mark.parametrize("name", ["Ann", "Dot"])
def test_only_a_lead_edits_them(study, name):
    with pytest.raises(Forbidden, match="may not edit the guidelines for annotators; this takes the role lead"):
        edit_guidelines(study, "mine", actor=name)
    assert not (study.folder / "guidelines.md").exists()


@pytest.mark.parametrize("text", ["", "  \n", "x" * (MAX_TEXT + 1), "a\0b"])
def test_texts_that_will_not_do(study, text):
    with pytest.raises(BadInput, match="the text of the guidelines"):
        edit_guidelines(study, text)


def test_a_lead_edits_them_on_team_and_annotators_see_them_on_judge(study, monkeypatch):
    page = Page(study.folder, "team", "Lea")
    assert "Does the passage answer the question?" in page.text, "the preview"
    monkeypatch.setenv("BLINDSPOT_STUDY", str(study.folder))
    monkeypatch.setenv("BLINDSPOT_SIGN_IN", "none")
    area = next(each for each in page.app.text_area if each.label.startswith("Guidelines"))
    area.set_value("# Ours\n\n<b>Look</b> *twice*.").run()
    assert "<h2>Ours</h2>" in page.html and "&lt;b&gt;Look&lt;/b&gt; <em>twice</em>" in page.html
    next(each for each in page.app.button if each.label == "Save the guidelines").click().run()
    version = guidelines(study.folder).version
    assert f"Version {version} is in force" in page.text and ", by Lea" in page.text


def test_the_command_lists_and_changes_them(study, tmp_path):
    def run(*arguments):
        result = CliRunner().invoke(app, ["batch", "guidelines", *arguments, "--study", str(study.folder)])
        assert result.exit_code == 0, result.output
        return result.stdout

    (tmp_path / "ours.md").write_text("# Ours\n", encoding="utf-8")
    version = run(str(tmp_path / "ours.md")).split()[-1].rstrip(".")
    assert version == guidelines(study.folder).version and version in run()
