"""Format numbers for sentences, such as "1 passage", "2,223 passages" and "3 min"."""

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


def quantity(number: int, singular: str, plural: str | None = None) -> str:
    """Return the number and its noun, singular or plural. Give `plural` only for nouns with an irregular plural."""
    return f"{number:,} {noun_form(number, singular, plural)}"


def noun_form(number: int, singular: str, plural: str | None = None) -> str:
    """Return the form of the noun (or of a verb in `_IRREGULAR`) that agrees with the number."""
    if number == 1:
        return singular
    if plural is not None:
        return plural
    if singular in _IRREGULAR:
        return _IRREGULAR[singular]
    if singular.endswith("y") and singular[-2:-1] not in "aeiou":
        return singular[:-1] + "ies"
    return singular + ("es" if singular.endswith(("s", "x", "ch", "sh")) else "s")


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it: seconds, minutes or hours."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
