"""A hyper-parameter is one declaration: the command line, forms, checks and the docs take it from there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
from typer.testing import CliRunner

from blindspot.app.commands.options import takes_settings
from blindspot.backend.core.declared import Field, declared_settings, settings_class, value_text
from blindspot.backend.core.settings import BM25Settings, EncoderSettings, HybridSettings
from blindspot.backend.reader.settings import ReaderSettings
from blindspot.backend.recipes.settings import RecipeSettings
from blindspot.backend.retrieval.faiss_options import FaissOptions
from blindspot.backend.training.training_settings import CrossEncoderSettings, DualEncoderSettings
from blindspot.db.errors import BadInput

DOCS = Path(__file__).parents[1] / "docs"


@settings_class
class WithMomentum(DualEncoderSettings):
    """The exercise: a new hyper-parameter that is named only in its declaration."""

    momentum: float = Field(0.5, title="Momentum", description="Share of the last step that goes on", ge=0, le=1)
    schedule: Literal["linear", "cosine"] = Field("linear", description="Form of the decay")
    frozen: bool = Field(False, description="Keep the first layer as it is")


def run(*words: str) -> tuple[Any, dict]:
    app, seen = typer.Typer(rich_markup_mode=None, add_completion=False), {}

    @app.command()
    @takes_settings(WithMomentum)
    def train(
        name: str, on: Annotated[str, typer.Option(help="Set.")] = "x", *, settings: dict[str, Any], again: bool = False
    ):
        seen.update(settings=settings, name=name, on=on, again=again)

    return CliRunner().invoke(app, words, terminal_width=200), seen


def test_one_declaration_makes_an_option_with_help_default_and_bounds():
    shown = run("--help")[0].output
    words = " ".join(shown.split())
    assert "--momentum <float range> Share of the last step that goes on (default 0.5). [0<=x<=1]" in words
    assert "--schedule linear|cosine Form of the decay (default linear)." in words
    assert "--frozen Keep the first layer as it is." in words and "--no-frozen" not in words
    assert "--decay / --no-decay" in words and "--batch <int range>" in words


def test_what_is_given_arrives_and_the_rest_keeps_its_default():
    result, seen = run("m", "--momentum", "0.25", "--frozen", "--no-decay", "--again")
    assert result.exit_code == 0, result.output
    assert seen == {
        "settings": {"momentum": 0.25, "frozen": True, "decay": False},
        "name": "m",
        "on": "x",
        "again": True,
    }
    made = WithMomentum(**seen["settings"])
    assert (made.momentum, made.schedule, made.batch) == (0.25, "linear", 32)


@pytest.mark.parametrize("words", [("--momentum", "2"), ("--batch", "0"), ("--batch", "many")])
def test_the_command_line_keeps_the_bounds(words):
    assert run("m", *words)[0].exit_code == 2


def test_what_the_command_line_cannot_check_the_settings_do():
    with pytest.raises(BadInput, match="^schedule must be one of linear, cosine, not 'stairs'$"):
        WithMomentum(**run("m", "--schedule", "stairs")[1]["settings"])


def test_a_form_field_comes_from_the_declaration():
    from streamlit.testing.v1 import AppTest

    def page():
        import streamlit as st

        from blindspot.app.components.setting_fields import setting_field
        from tests.test_options import WithMomentum

        st.session_state["values"] = {
            name: setting_field(st, WithMomentum, name)
            for name in ("momentum", "schedule", "frozen", "layers", "loss", "only", "distil")
        }

    shown = AppTest.from_function(page).run()
    assert not shown.exception, shown.exception
    assert shown.session_state["values"] == {
        "momentum": 0.5,
        "schedule": "linear",
        "frozen": False,
        "layers": None,
        "loss": "softmax",
        "only": None,
        "distil": None,
    }
    field = next(each for each in shown.number_input if each.label == "Momentum")
    assert (field.min, field.max, field.help) == (0, 1, "Share of the last step that goes on.")


@pytest.mark.parametrize(
    ("page", "kind"),
    [
        ("train.md", DualEncoderSettings),
        ("train.md", CrossEncoderSettings),
        ("read.md", ReaderSettings),
        ("recipe.md", RecipeSettings),
        ("retrieve.md", FaissOptions),
        ("study-folder.md", BM25Settings),
        ("study-folder.md", HybridSettings),
        ("study-folder.md", EncoderSettings),
    ],
)
def test_the_tables_of_the_docs_are_the_declarations(page, kind):
    """`python -m tests.test_options` rewrites the tables."""
    assert table_of(page, kind) == markdown_table(kind), "run: python -m tests.test_options"


def markdown_table(kind: type) -> str:
    """The settings of a class as a Markdown table."""
    rows = ["| setting | default | accepts | what it does |", "|---|---|---|---|"]
    for name, setting in declared_settings(kind).items():
        if setting.kind in (int, float, bool, str):
            default = "" if setting.default is None else f"`{value_text(setting.default)}`"
            rows.append(
                f"| `{name}` | {default} | {setting.accepted_values.removeprefix('one of ')} | {setting.help} |"
            )
    return "\n".join(rows)


def marked(kind: type) -> re.Pattern[str]:
    return re.compile(rf"(<!-- settings: {kind.__name__} -->\n)(.*?)(\n<!-- end -->)", re.S)


def table_of(page: str, kind: type) -> str:
    found = marked(kind).search((DOCS / page).read_text(encoding="utf-8"))
    assert found, f"docs/{page} has no table of {kind.__name__}"
    return found[2]


if __name__ == "__main__":
    for mark in test_the_tables_of_the_docs_are_the_declarations.pytestmark:
        for page, kind in mark.args[1]:
            text = (DOCS / page).read_text(encoding="utf-8")
            (DOCS / page).write_text(
                marked(kind).sub(lambda m, k=kind: m[1] + markdown_table(k) + m[3], text), encoding="utf-8"
            )
