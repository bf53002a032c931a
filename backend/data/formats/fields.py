"""Read typed fields of JSON objects. Error messages name the field."""

from __future__ import annotations

import ast
import json
from typing import Any, Literal, overload

from blindspot.backend.data.formats.streams import has_invalid_utf8

MAX_INTEGER = 2**63 - 1


class FieldError(ValueError):
    """An error in a record. The message does not include the file and the line."""


def parse_object(text: str) -> dict[str, Any]:
    """Parse a JSON object, such as a line of a file. Raises FieldError for bytes that are not UTF-8, invalid JSON and
    other values.
    """
    if not text.isascii() and has_invalid_utf8(text):
        raise FieldError("this line contains bytes that are not UTF-8")
    value = parse(text)
    if not isinstance(value, dict):
        raise FieldError(f"this is {type_in_words(value)}, not a JSON object")
    return value


def parse(text: str) -> Any:
    """Parse a JSON value. Raises FieldError for invalid JSON."""
    try:
        return json.loads(text)
    except RecursionError:
        raise FieldError("this JSON is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise FieldError(f"this is not JSON ({error.msg}, character {error.pos + 1})") from None
    except ValueError as error:  # a number with thousands of digits
        raise FieldError(f"this JSON cannot be read ({str(error).partition(';')[0]})") from None


def parse_structured_text(value: Any) -> Any:
    """Parse a text that is JSON or a printed Python list or dict. Other values are returned unchanged."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        for parser in (json.loads, ast.literal_eval):
            try:
                return parser(value.strip())
            except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
                continue
    return value


@overload
def identifier(record: dict[str, Any], *names: str, required: Literal[True] = True) -> str: ...
@overload
def identifier(record: dict[str, Any], *names: str, required: Literal[False]) -> str | None: ...
def identifier(record: dict[str, Any], *names: str, required: bool = True) -> str | None:
    """Return the first of the named fields that is present, as an id: text, or a whole number converted to text."""
    for name in names:
        if name in record:
            value = record[name]
            if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_INTEGER:
                return str(value)
            if isinstance(value, str):
                return value
            raise FieldError(f"'{name}' is {type_in_words(value)}; it must be text")
    if required:
        raise FieldError(f"there is no '{names[0]}'")
    return None


@overload
def text(record: dict[str, Any], name: str, default: str) -> str: ...
@overload
def text(record: dict[str, Any], name: str, default: None = None) -> str | None: ...
def text(record: dict[str, Any], name: str, default: str | None = None) -> str | None:
    """Return a text field; the default if it is absent or null."""
    value = record.get(name)
    if value is None:
        return default
    if not isinstance(value, str):
        raise FieldError(f"'{name}' is {type_in_words(value)}; it must be text")
    return value


def required_text(record: dict[str, Any], *names: str) -> str:
    """Return the first of the named text fields that is present and not null."""
    for name in names:
        value = text(record, name)
        if value is not None:
            return value
    raise FieldError(f"there is no '{names[0]}'")


def texts(record: dict[str, Any], name: str) -> tuple[str, ...]:
    """Return a field with a list of texts; empty if it is absent or null."""
    value = record.get(name)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise FieldError(f"'{name}' is {type_in_words(value)}; it must be a list of texts")
    for element in value:
        if not isinstance(element, str):
            raise FieldError(f"'{name}' contains {type_in_words(element)}; it must be a list of texts")
    return tuple(value)


def integer(record: dict[str, Any], *names: str) -> int | None:
    """Return the first of the named fields that is present and not null, as a whole number of at least 0."""
    for name in names:
        value = record.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            raise FieldError(f"'{name}' is {type_in_words(value)}; it must be a whole number")
        if not 0 <= value <= MAX_INTEGER:
            raise FieldError(f"'{name}' is out of range")
        return value
    return None


def integers(record: dict[str, Any], name: str) -> dict[str, int]:
    """Return a field with an object of whole numbers; empty if it is absent or null."""
    value = record.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise FieldError(f"'{name}' is {type_in_words(value)}; it must be an object of whole numbers")
    for key, each in value.items():
        if isinstance(each, bool) or not isinstance(each, int) or abs(each) >= 10**9:
            raise FieldError(f"'{name}' gives {key[:40]!r} {str(each)[:40]}; it must be a whole number")
    return dict(value)


def type_in_words(value: Any) -> str:
    """Describe the type of a JSON value for a message."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, list) else "an object"
