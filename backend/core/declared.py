"""Declare settings once, as a class whose fields have a title, a help text, a default and bounds.

    @settings_class
    class BM25Settings:
        k1: float = Field(default=0.9, title="k1", description="Saturation of a term's frequency", ge=0)

The comments of study.toml, the command-line options (app/commands/options.py), the form fields
(app/components/setting_fields.py) and the messages about invalid values are generated from this declaration.
"""

from __future__ import annotations

import inspect
import textwrap
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, wraps
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, dataclass_transform, get_args, get_origin

from pydantic import AfterValidator, ConfigDict, ValidationError
from pydantic import Field as Field
from pydantic import dataclasses as pydantic_dataclasses

from blindspot.backend.core.registry import Registry
from blindspot.db.errors import BadInput

C = TypeVar("C")
R = TypeVar("R")
LONGEST_COMMENT = 60  # characters of a comment behind a line of study.toml
LONGEST_VALUE = 40  # characters of a wrong value that an error line shows


@dataclass_transform(frozen_default=True, field_specifiers=(Field,))
def settings_class(cls: type[C]) -> type[C]:
    """Make a class a frozen dataclass whose values pydantic checks. An invalid value raises BadInput with a one-line
    message.
    """
    config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, validate_default=False)
    result = pydantic_dataclasses.dataclass(frozen=True, config=config)(cls)
    validated = result.__init__

    @wraps(validated)
    def __init__(self: Any, *args: Any, **values: Any) -> None:
        try:
            validated(self, *args, **values)
        except ValidationError as error:
            raise BadInput(_first_problem(type(self), error)) from error

    result.__init__ = __init__  # type: ignore[method-assign]
    return result  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class DeclaredSetting:
    """The declaration of one setting.

    kind: int, float, bool or str; tuple for several texts or numbers of the type `item`; any other type (a mapping,
        nested settings). choices: the allowed words, if only some are allowed. optional: it may be None, which its help
        explains. minimum, maximum: inclusive bounds. above, below: exclusive ones. extra: what the declaration says to
        one of its readers alone, such as {"option": "--fusion"}.
    """

    name: str
    title: str
    help: str
    default: Any
    kind: type
    choices: tuple[str, ...]
    optional: bool
    minimum: float | None
    maximum: float | None
    above: float | None
    below: float | None
    extra: Mapping[str, Any]
    item: type = str
    has_default: bool = True

    @property
    def accepted_values(self) -> str:
        """The accepted values in words, to follow "must be"."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.kind is bool:
            return "true or false"
        if self.kind is str:
            return "a text"
        if self.kind is tuple:
            return "whole numbers" if self.item is int else "a list of texts"
        if self.kind not in (int, float):
            return "a table"
        lower = None if self.minimum is None else f"at least {value_text(self.minimum)}"
        lower = f"above {value_text(self.above)}" if self.above is not None else lower
        upper = None if self.maximum is None else f"at most {value_text(self.maximum)}"
        upper = f"below {value_text(self.below)}" if self.below is not None else upper
        number = "a whole number" if self.kind is int else "a number"
        if self.minimum is not None and self.maximum is not None:
            return f"{number} from {value_text(self.minimum)} to {value_text(self.maximum)}"
        bounds = " and ".join(bound for bound in (lower, upper) if bound)
        return f"{number} of {bounds}" if lower and self.above is None else f"{number} {bounds}".rstrip()

    @property
    def option(self) -> str:
        """The name of the command-line option."""
        return str(self.extra.get("option", f"--{self.name.replace('_', '-')}"))


@cache
def declared_settings(cls: type) -> dict[str, DeclaredSetting]:
    """Return the settings of a settings class by name, in the order of their declaration."""
    return {name: _declare_setting(name, field) for name, field in cls.__pydantic_fields__.items()}  # type: ignore[attr-defined]


def one_of(names: Registry[Any]) -> AfterValidator:
    """Return a validator that accepts only names of a registry's entries. Usage: `Annotated[str, one_of(LOSSES)]`.

    The field itself must also list the names, for forms and help: `json_schema_extra={"choices": LOSSES.names()}`.
    """

    def check(name: str) -> str:
        if name not in names:
            raise ValueError(f"must be one of {', '.join(names.names())}, not {_short_value(name)}")
        return name

    return AfterValidator(check)


def _declare_setting(name: str, field: Any) -> DeclaredSetting:
    kinds = [field.annotation]
    if get_origin(field.annotation) in (Union, types.UnionType):
        kinds = [kind for kind in get_args(field.annotation) if kind is not type(None)]
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    named = extra.get("choices", ())
    item = (get_args(kinds[0]) or (str,))[0] if get_origin(kinds[0]) is tuple else None
    words = kinds[0] if item is None else item
    choices = get_args(words) if get_origin(words) is Literal else tuple(named)
    kind = tuple if item else str if choices else get_origin(kinds[0]) or kinds[0]
    bounds = {
        word: getattr(each, word) for each in field.metadata for word in ("ge", "le", "gt", "lt") if hasattr(each, word)
    }
    default = field.get_default(call_default_factory=True)
    return DeclaredSetting(
        name=name,
        title=field.title or name.replace("_", " ").capitalize(),
        help=field.description or "",
        default=None if field.is_required() else default,
        kind=kind,
        choices=tuple(choices),
        optional=type(None) in get_args(field.annotation),
        minimum=bounds.get("ge"),
        maximum=bounds.get("le"),
        above=bounds.get("gt"),
        below=bounds.get("lt"),
        extra=extra,
        item=int if item is int else str,
        has_default=not field.is_required(),
    )


def build_settings(cls: type[C], table: object, key: str = "", path: Path | None = None) -> C:
    """Make an instance of a settings class from a table, such as a table of study.toml or the arguments of a job.

    Args:
        key: the position of the table in the file, as in "encoders.dpr".
        path: the file, which error lines name.

    Raises BadInput that names the file and the key.
    """
    if not isinstance(table, Mapping):
        raise BadInput(f"{key or 'the settings'} must be a table, not {_short_value(table)}", path)
    values = dict(table)
    for name, declaration in declared_settings(cls).items():  # type: ignore[arg-type]  # a class is hashable
        if name not in values or isinstance(values[name], declaration.kind):
            continue
        if hasattr(declaration.kind, "__pydantic_fields__"):
            values[name] = build_settings(declaration.kind, values[name], f"{key}.{name}".lstrip("."), path)
        elif declaration.kind is tuple and isinstance(values[name], list):
            values[name] = tuple(values[name])
    try:
        return cls(**{str(name): value for name, value in values.items()})
    except BadInput as error:
        if isinstance(error.__cause__, ValidationError):
            raise BadInput(_first_problem(cls, error.__cause__, f"{key}." if key else ""), path) from None
        raise BadInput(f"{key} {error.message}".strip(), path) from None


def named_settings(cls: type, parameter: str = "settings") -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Decorate a function so that callers pass the settings of a class as separate keyword arguments.

    The function itself receives one instance of the class, as its argument `parameter`. The decorated signature lists
    every setting, so records of jobs can use the names. Raises BadInput for an invalid
    value.
    """

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        known = declared_settings(cls)
        own = inspect.signature(function)
        if twice := known.keys() & own.parameters.keys():
            raise TypeError(
                f"{function.__qualname__} has the parameters {sorted(twice)}, which {cls.__name__} declares"
            )

        @wraps(function)
        def call(*args: Any, **given: Any) -> R:
            chosen = {name: given.pop(name) for name in known if name in given}
            return function(*args, **given, **{parameter: build_settings(cls, chosen)})

        fields = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=one.default if one.has_default else own.empty
            )
            for name, one in known.items()
        ]
        rest = [each for each in own.parameters.values() if each.name != parameter]
        before = [each for each in rest if each.kind is not each.KEYWORD_ONLY and each.kind is not each.VAR_KEYWORD]
        after = [each for each in rest if each not in before]
        call.__signature__ = own.replace(parameters=[*before, *fields, *after])  # type: ignore[attr-defined]
        return call

    return decorate


def _first_problem(cls: type, error: ValidationError, prefix: str = "") -> str:
    """Return one line about the first invalid value: its key, the accepted values, and the value."""
    first = error.errors(include_url=False, include_context=True)[0]
    known, place = declared_settings(cls), [str(part) for part in first["loc"]]
    if first["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        return f"unknown setting {prefix}{_shown_key(place[0])}; known: {', '.join(known)}"
    if not place or place[0] not in known:
        return f"{prefix.rstrip('.')} {first['msg']}".strip()
    if first["type"] == "value_error":
        return f"{prefix}{place[0]} {first['ctx']['error']}"
    return f"{prefix}{place[0]} must be {known[place[0]].accepted_values}, not {_short_value(first['input'])}"


def _short_value(value: object) -> str:
    """Return a value as error messages show it: shortened, also for integers with thousands of digits."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**LONGEST_VALUE:
        return f"a number of more than {LONGEST_VALUE} digits"
    if isinstance(value, (Mapping, list, tuple)):
        return "a table" if isinstance(value, Mapping) else "a list"
    shown = repr(value[: 2 * LONGEST_VALUE] if isinstance(value, str) else value)
    return shown if len(shown) <= LONGEST_VALUE else f"{shown[: LONGEST_VALUE - 1]}…"


def _shown_key(key: str) -> str:
    return key if len(key) <= LONGEST_VALUE else f"{key[: LONGEST_VALUE - 1]}…"


def value_text(value: object) -> str:
    """Return a value as text: a number without trailing zeros, a flag as yes or no, other values unchanged."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def toml_section(cls: type, values: Mapping[str, Any] | None = None) -> str:
    """Return the lines of a settings class for study.toml, each with its help as a comment.

    Args:
        values: what differs from the defaults. A setting without a value and without a default gets no line.
    """
    lines = []
    for name, declaration in declared_settings(cls).items():
        value = (values or {}).get(name, declaration.default)
        is_hidden = declaration.extra.get("toml") is False and name not in (values or {})
        if declaration.kind not in (int, float, bool, str) or value is None or is_hidden:
            continue
        lines.append((f"{name} = {_toml_value(value)}", declaration.help))
    width = max((len(line) for line, about in lines if len(about) <= LONGEST_COMMENT), default=0)
    return "".join(_line_with_comment(line, about, width) for line, about in lines)


def _line_with_comment(line: str, comment: str, width: int) -> str:
    """Return a line of study.toml with its comment: on the same line, or above it if the comment is long."""
    if len(comment) <= LONGEST_COMMENT:
        return f"{line:<{width}}  # {comment}\n"
    return "".join(f"# {part}\n" for part in textwrap.wrap(comment, 2 * LONGEST_COMMENT)) + f"{line}\n"


def _toml_value(value: object) -> str:
    """Return a number, a flag or a text in TOML. Characters that a TOML string does not allow become spaces."""
    if not isinstance(value, str):
        return str(value).lower() if isinstance(value, bool) else str(value)
    return '"' + "".join(c if c.isprintable() and c not in '"\\' else " " for c in value) + '"'
