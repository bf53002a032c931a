"""Typed fields out of JSON objects, with messages that name the field."""

from __future__ import annotations

import json
from typing import Any

from backend.data.formats.base import MAX_INTEGER


class FieldError(ValueError):
    """What is wrong with a record, without the place."""


def parse_object(text: str) -> dict[str, Any]:
    """A JSON object. Raises FieldError."""
    value = parse(text)
    if not isinstance(value, dict):
        raise FieldError(f"this is {kind_of(value)}, not a JSON object")
    return value


def parse(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise FieldError("this JSON is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise FieldError(f"this is not JSON ({error.msg}, character {error.pos + 1})") from None
    except ValueError as error:  # a number with thousands of digits
        raise FieldError(f"this JSON cannot be read ({str(error).partition(';')[0]})") from None


def identifier(record: dict[str, Any], *names: str, required: bool = True) -> str | None:
    """The first of the fields that is there, as an id: text, or a whole number written as text."""
    for name in names:
        if name in record:
            value = record[name]
            if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_INTEGER:
                return str(value)
            if isinstance(value, str):
                return value
            raise FieldError(f"'{name}' is {kind_of(value)}; it must be text")
    if required:
        raise FieldError(f"there is no '{names[0]}'")
    return None


def text(record: dict[str, Any], name: str, default: str | None = None) -> str | None:
    """A field that holds text; absent or null gives the default."""
    value = record.get(name)
    if value is None:
        return default
    if not isinstance(value, str):
        raise FieldError(f"'{name}' is {kind_of(value)}; it must be text")
    return value


def required_text(record: dict[str, Any], *names: str) -> str:
    for name in names:
        value = text(record, name)
        if value is not None:
            return value
    raise FieldError(f"there is no '{names[0]}'")


def texts(record: dict[str, Any], name: str) -> tuple[str, ...]:
    """A field that holds a list of texts; absent or null gives none."""
    value = record.get(name)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise FieldError(f"'{name}' is {kind_of(value)}; it must be a list of texts")
    for element in value:
        if not isinstance(element, str):
            raise FieldError(f"'{name}' holds {kind_of(element)}; it must be a list of texts")
    return tuple(value)


def integer(record: dict[str, Any], *names: str) -> int | None:
    """The first of the fields that is there and not null, as a whole number of 0 or more."""
    for name in names:
        value = record.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            raise FieldError(f"'{name}' is {kind_of(value)}; it must be a whole number")
        if not 0 <= value <= MAX_INTEGER:
            raise FieldError(f"'{name}' is out of range")
        return value
    return None


def kind_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    return {str: "text", list: "a list", dict: "an object"}[type(value)]
