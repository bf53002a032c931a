"""Settings are declared once: checks, error lines, study.toml and the tables of the docs come from the declaration."""

from __future__ import annotations

import inspect
from dataclasses import asdict, replace
from typing import Literal

import pytest
import typer
from typer.testing import CliRunner

from blindspot.app.commands.options import takes_settings
from blindspot.backend.core import declared
from blindspot.backend.core.declared import Field, build_settings, declared_settings, named_settings, settings_class
from blindspot.db.errors import BadInput


@settings_class
class Small:
    rate: float = Field(0.5, title="Rate", description="How fast", gt=0, le=1)
    words: Literal["few", "many"] = Field("few", description="How many words")
    steps: int | None = Field(None, description="Steps; default: as many as there are", ge=1)
    fast: bool = Field(True, description="Hurry")


@settings_class
class Larger(Small):
    rate: float = Field(0.25, title="Rate", description="How fast", gt=0, le=1)
    inner: Small = Field(default_factory=lambda: Small())


def test_values_are_checked_and_frozen():
    made = Small(rate=1, steps=3)
    assert made == Small(rate=1.0, steps=3) and isinstance(made.rate, float) and hash(made) == hash(replace(made))
    assert asdict(made) == {"rate": 1.0, "words": "few", "steps": 3, "fast": True}
    with pytest.raises(AttributeError):
        made.rate = 2.0
    assert Larger().rate == 0.25 and Larger(steps=2).steps == 2


WRONG = (
    ({"rate": 0}, "rate must be a number above 0 and at most 1, not 0"),
    ({"rate": "1"}, "rate must be a number above 0 and at most 1, not '1'"),
    ({"words": "none"}, "words must be one of few, many, not 'none'"),
    ({"steps": 0}, "steps must be a whole number of at least 1, not 0"),
    ({"steps": 2.0}, "steps must be a whole number of at least 1, not 2.0"),
    ({"steps": True}, "steps must be a whole number of at least 1, not True"),
    ({"fast": 1}, "fast must be true or false, not 1"),
    ({"speed": 1}, "unknown setting speed; known: rate, words, steps, fast"),
    ({"words": "x" * 100_000}, "words must be one of few, many, not '" + "x" * 38 + "…"),
)


def test_a_wrong_value_gives_one_line_and_a_nested_one_is_named_by_its_place(tmp_path):
    for values, says in WRONG:
        for make in (Small, lambda **values: replace(Small(), **values) if "speed" not in values else Small(**values)):
            with pytest.raises(BadInput) as error:
                make(**values)
            assert str(error.value) == says
    with pytest.raises(BadInput) as error:
        build_settings(Larger, {"inner": {"rate": 2}}, "part", tmp_path / "file.toml")
    assert str(error.value) == f"{tmp_path}/file.toml: part.inner.rate must be a number above 0 and at most 1, not 2"
    with pytest.raises(BadInput, match="^part.inner must be a table, not 3$"):
        build_settings(Larger, {"inner": 3}, "part")
    with pytest.raises(BadInput, match="^unknown setting part.inner.x; known: rate"):
        build_settings(Larger, {"inner": {"x": 3}}, "part")


def test_what_is_read_from_a_declaration():
    known = declared_settings(Small)
    assert list(known) == ["rate", "words", "steps", "fast"]
    assert known["words"].choices == ("few", "many") and known["words"].title == "Words"
    assert (known["steps"].kind, known["steps"].optional, known["steps"].minimum) == (int, True, 1)
    assert (known["rate"].help, known["rate"].default, known["rate"].option) == ("How fast", 0.5, "--rate")
    assert declared.toml_section(Small, {"words": "many"}) == (
        'rate = 0.5      # How fast\nwords = "many"  # How many words\nfast = true     # Hurry\n'
    )


@settings_class
class Several:
    numbers: tuple[int, ...] = Field(default=(1, 2), description="Numbers")
    names: tuple[Literal["a", "b"], ...] | None = Field(default=None, description="Names", title="Names")
    inner: Small = Field(default=Small(), description="Others")


def test_several_values_are_lists_in_json():
    assert build_settings(Several, {"numbers": [3], "names": ["a"], "inner": {"steps": 2}}) == Several(
        (3,), ("a",), Small(steps=2)
    )
    assert [(one.kind, one.item, one.choices) for one in declared_settings(Several).values()][:2] == [
        (tuple, int, ()),
        (tuple, str, ("a", "b")),
    ]
    for values, says in (
        ({"numbers": ["x"]}, "numbers must be whole numbers, not 'x'"),
        ({"names": ["c"]}, "names must be one of a, b, not 'c'"),
        ({"inner": {"steps": 0}}, "inner.steps must be a whole number of at least 1, not 0"),
    ):
        with pytest.raises(BadInput) as error:
            build_settings(Several, values)
        assert str(error.value) == says


def test_a_function_takes_its_settings_by_name():
    @named_settings(Several)
    def asked(name: str, settings: Several, by: str | None = None):
        return name, settings, by

    assert asked("x", numbers=[5], by="ann") == ("x", Several((5,)), "ann") and asked("x") == ("x", Several(), None)
    parameters = inspect.signature(asked).parameters
    assert list(parameters) == ["name", "by", "numbers", "names", "inner"] and parameters["numbers"].default == (1, 2)
    with pytest.raises(BadInput, match="numbers must be whole numbers"):
        asked("x", numbers=["5"])
    with pytest.raises(TypeError, match="unexpected keyword argument 'wrong'"):
        asked("x", wrong=1)
    with pytest.raises(TypeError, match="numbers.*Several declares"):
        named_settings(Several)(lambda numbers, settings: None)


def test_options_of_several_values():
    app = typer.Typer(add_completion=False, rich_markup_mode=None)

    @app.command()
    @takes_settings(Several)
    def command(*, settings: dict):
        print(build_settings(Several, settings))

    runner = CliRunner()
    done = runner.invoke(app, ["--numbers", "3, 4", "--names", "a", "--names", "b"])
    assert "numbers=(3, 4), names=('a', 'b')" in done.output
    assert "numbers=(1, 2), names=None" in runner.invoke(app, []).output
    assert "whole numbers separated by commas" in " ".join(runner.invoke(app, ["--numbers", "3;4"]).output.split())
    shown = " ".join(runner.invoke(app, ["--help"]).output.split())
    assert "Numbers (default 1,2)" in shown and "Names (repeatable)" in shown
