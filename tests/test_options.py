"""A hyper-parameter is one declaration: the command line, forms and checks take it from there."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
import typer
from typer.testing import CliRunner

from blindspot.app.commands.options import takes_settings
from blindspot.backend.core.declared import Field, settings_class
from blindspot.backend.training.training_settings import DualEncoderSettings
from blindspot.db.errors import BadInput


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
    given = {"momentum": 0.25, "frozen": True, "decay": False}
    assert seen == {"settings": given, "name": "m", "on": "x", "again": True}
    made = WithMomentum(**seen["settings"])
    assert (made.momentum, made.schedule, made.batch) == (0.25, "linear", 32)


def test_the_command_line_keeps_the_bounds_and_the_settings_the_rest():
    for words in (("--momentum", "2"), ("--batch", "0"), ("--batch", "many")):
        assert run("m", *words)[0].exit_code == 2
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
    defaults = {"momentum": 0.5, "schedule": "linear", "frozen": False, "loss": "softmax"}
    assert shown.session_state["values"] == {**defaults, "layers": None, "only": None, "distil": None}
    field = next(each for each in shown.number_input if each.label == "Momentum")
    assert (field.min, field.max, field.help) == (0, 1, "Share of the last step that goes on.")
