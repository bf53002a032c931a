"""Numbers in sentences: "1 passage", "2,223 passages"."""

from __future__ import annotations

_IRREGULAR = {
    "is": "are",
    "has": "have",
    "was": "were",
    "does": "do",
    "holds": "hold",
    "counts": "count",
    "its": "their",
}


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """Return the number and the noun that fits it. `plural` is needed where it is not formed with an s, or a y becomes ies."""
    return f"{number:,} {noun(number, singular, plural)}"


def noun(number: int, singular: str, plural: str | None = None) -> str:
    """Return the noun, or the verb of `_IRREGULAR`, that fits the number."""
    if number == 1:
        return singular
    if plural is not None:
        return plural
    if singular in _IRREGULAR:
        return _IRREGULAR[singular]
    if singular.endswith("y") and singular[-2:-1] not in "aeiou":
        return singular[:-1] + "ies"
    return singular + ("es" if singular.endswith(("s", "x", "ch", "sh")) else "s")
