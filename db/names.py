"""The rules for names: those of people and batches, which pages show, and those of runs, models and other parts, which
become folder names.
"""

from __future__ import annotations

from typing import Any

from blindspot.db.errors import BadInput

MAX_NAME = 64


def text_problem(value: Any, limit: int) -> str | None:
    """Say why a value is not a text of 1 to `limit` characters that SQLite and UTF-8 can store; None if it is one."""
    if not isinstance(value, str) or not value:
        return "must be text, and not empty"
    if len(value) > limit:
        return f"has {len(value):,} characters; {limit:,} are allowed"
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        return "contains a NUL or half a surrogate pair"
    return None


def name_problem(name: Any) -> str | None:
    """Say why a value cannot name a person or a batch; None if it can."""
    if problem := text_problem(name, MAX_NAME):
        return problem
    if name != name.strip():
        return "begins or ends with a space"
    if not name.isprintable():
        return "contains a line end or another character that cannot be printed"
    return None


def check_display_name(name: Any, noun: str) -> str:
    """Return the name of a person or a batch, or raise an error if the rules forbid it.

    Raises:
        BadInput: It does not.
    """
    if problem := name_problem(name):
        raise BadInput(
            f"{noun} name {str(name)[:80]!r} {problem}; use 1 to {MAX_NAME} printable characters, no space at the ends"
        )
    return str(name)
